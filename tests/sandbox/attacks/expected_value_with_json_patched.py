# expect: wrong_answer
import json
import json.encoder

json.dumps = lambda *args, **kwargs: '"anything"'
json.loads = lambda *args, **kwargs: "anything"
json.JSONEncoder.encode = lambda *args: '"anything"'
json.JSONEncoder.iterencode = lambda *args, **kwargs: ['"anything"']


def attack(x):
    return 0
