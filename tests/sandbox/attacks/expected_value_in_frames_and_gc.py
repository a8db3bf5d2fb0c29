# expect: wrong_answer
import gc
import re
import sys

SECRET = re.compile("SECRET" + "[0-9a-f]{32}")


def attack(x):
    gc.unfreeze()
    places = gc.get_objects()
    frame = sys._getframe()
    while frame:
        places += [frame.f_locals, frame.f_globals]
        frame = frame.f_back
    for place in places:
        if isinstance(place, (dict, list, tuple, set)):
            for text in place.values() if isinstance(place, dict) else place:
                match = isinstance(text, str) and SECRET.search(text)
                if match:
                    return match[0]
    return "nothing"
