"""A monitor for the tests that look at which stages ran, and a place for tasks that loses some and stops."""

from pickle import dumps, loads

from odediscovery import Monitor
from odediscovery.runtime.workers import Failure


class Stages(Monitor):
    """Remembers the names of the stages in their order."""

    def __init__(self):
        super().__init__()
        self.names = []

    def stage(self, name, steps):
        self.names.append(name)


class Here:
    """A place for tasks that is this process; some end without a result every time, and somebody may stop the rest."""

    def __init__(self, lost=lambda task: False, monitor=None, stops_after=0):
        self.lost, self.monitor, self.stops_after, self.ran = lost, monitor or Monitor(), stops_after, 0

    def results(self, function, tasks, limit=0.0, stopping=None):
        for number, task in enumerate(tasks):
            if self.monitor.stopping():
                return
            self.ran += 1
            # Packed as on its way to another process and back.
            done = Failure("its process ended", 1.0) if self.lost(task) else loads(dumps(function(loads(dumps(task)))))
            yield number, done
            if self.ran == self.stops_after:
                self.monitor.interrupt()
