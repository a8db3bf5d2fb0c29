"""A sampler is built, sampled, loaded and put to sleep in one thread."""

import threading

import pytest

from train.errors import SamplerError
from train.sampling.protocol import SamplingParams
from train.sampling.sampler_thread import SamplerThread


class Recorder:
    """A sampler that records the threads in which it is called."""

    def __init__(self, threads):
        self._threads = threads
        self._threads.add(threading.current_thread().name)
        self.drawn = []

    def _note(self):
        self._threads.add(threading.current_thread().name)

    def sample(self, prompts, sampling):
        for index, _ in enumerate(prompts):
            self._note()
            self.drawn.append(index)
            yield index, ValueError("refused")

    def update_weights(self, weights, version, probe, max_error):
        self._note()
        return {"version": float(version)}

    def sleep(self):
        self._note()

    def close(self):
        pass


def prompts(n):
    return [((number,), number) for number in range(n)]


def test_everything_happens_in_one_thread_whoever_calls():
    threads = set()
    sampler = SamplerThread(lambda: Recorder(threads), seconds=10)
    assert [index for index, _ in sampler.sample(prompts(3), SamplingParams())] == [0, 1, 2]
    other = threading.Thread(target=lambda: list(sampler.sample(prompts(2), SamplingParams())))
    other.start()
    other.join(10)
    assert sampler.update_weights([], 7, None, 1.0) == {"version": 7.0}
    sampler.sleep()
    assert threads == {"engine"}
    sampler.close()


def test_an_error_is_raised_where_the_sampler_is_called():
    class Failing(Recorder):
        def sample(self, prompts, sampling):
            yield 0, ValueError("refused")
            raise SamplerError("it died")

    drawing = SamplerThread(lambda: Failing(set()), seconds=10).sample(prompts(2), SamplingParams())
    assert next(drawing)[0] == 0
    with pytest.raises(SamplerError, match="it died"):
        next(drawing)

    def missing():
        raise SamplerError("no such model")

    with pytest.raises(SamplerError, match="no such model"):
        SamplerThread(missing, seconds=10)


def test_a_caller_that_stops_stops_the_sampler():
    inner = Recorder(set())
    sampler = SamplerThread(lambda: inner, seconds=10)
    drawing = sampler.sample(iter(lambda: ((0,), 0), None), SamplingParams())  # endless
    next(drawing)
    drawing.close()
    sampler.sleep()  # it would wait for ever if the sampler went on
    n_drawn = len(inner.drawn)
    sampler.sleep()
    assert len(inner.drawn) == n_drawn


def test_closing_waits_for_the_step_in_progress():
    begun, go_on = threading.Event(), threading.Event()

    class Stepping(Recorder):
        def sample(self, prompts, sampling):
            begun.set()
            go_on.wait(10)
            self._note()
            self.drawn.append(0)
            yield 0, ValueError("refused")

        def close(self):
            go_on.set()

    inner = Stepping(set())
    sampler = SamplerThread(lambda: inner, seconds=10)
    reader = threading.Thread(target=lambda: list(sampler.sample(prompts(1), SamplingParams())))
    reader.start()
    assert begun.wait(10)
    sampler.close()
    assert inner.drawn == [0]
    reader.join(10)
