"""Plays URLs with GStreamer, all at once: each is played for half a second, paused, resumed, paused
again, sought in and played to its end. Prints a JSON document: for each URL its troubles and, for
each track and stage, the first and the last moment that was shown, in seconds of the file.

usage: gst_player.py SECONDS URL...
"""

import json
import os
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

# How long a stage may take on a machine that is busy.
PATIENCE = 40
# How long streams are over before what was shown last is the end.
SILENCE = 1.0


class Player:
    def __init__(self, url, seek):
        self.seek, self.stage, self.since = seek, "begun", time.monotonic()
        self.tracks, self.troubles, self.latest = {}, [], time.monotonic()
        self.pipe = Gst.Pipeline.new(None)
        source = Gst.ElementFactory.make("rtspsrc", None)
        source.set_property("location", url)
        source.set_property("latency", 300)
        source.connect("pad-added", self.found)
        self.pipe.add(source)
        self.pipe.set_state(Gst.State.PLAYING)

    def found(self, _source, pad):
        decoder = Gst.ElementFactory.make("decodebin", None)
        decoder.connect("pad-added", self.decoded)
        self.pipe.add(decoder)
        decoder.sync_state_with_parent()
        pad.link(decoder.get_static_pad("sink"))

    def decoded(self, _decoder, pad):
        track = self.tracks.setdefault(pad.query_caps().get_structure(0).get_name(), {})

        def show(_sink, buffer, pad):
            segment = pad.get_sticky_event(Gst.EventType.SEGMENT, 0).parse_segment()
            at = segment.to_stream_time(Gst.Format.TIME, buffer.pts) / Gst.SECOND
            track.setdefault(self.stage, [at, at])[1] = at
            self.latest = time.monotonic()

        sink = Gst.ElementFactory.make("fakesink", None)
        # In the time of the clock; a live source does not wait for a first picture to begin.
        for name, value in (("sync", True), ("async", False), ("signal-handoffs", True)):
            sink.set_property(name, value)
        sink.connect("handoff", show)
        self.pipe.add(sink)
        sink.sync_state_with_parent()
        pad.link(sink.get_static_pad("sink"))

    def turn(self, stage, state=None):
        self.stage, self.since = stage, time.monotonic()
        if state is not None:
            self.pipe.set_state(state)

    def everything_shows(self, stage, seconds):
        spans = [track.get(stage, [0, -1]) for track in self.tracks.values()]
        return bool(spans) and all(last - first >= seconds for first, last in spans)

    def step(self):
        """Goes on with what is to be done; says whether there is more."""
        ended = False
        kinds = Gst.MessageType.ERROR | Gst.MessageType.EOS
        while (message := self.pipe.get_bus().pop_filtered(kinds)) is not None:
            if message.type == Gst.MessageType.ERROR:
                self.troubles.append(str(message.parse_error()))
            ended = True
        passed = time.monotonic() - self.since
        if self.stage == "begun" and self.everything_shows("begun", 0.3):
            self.turn("pausing", Gst.State.PAUSED)
        elif self.stage == "pausing" and passed > 0.3:
            self.turn("resumed", Gst.State.PLAYING)
        elif self.stage == "resumed" and self.everything_shows("resumed", 0.2):
            self.turn("stopping", Gst.State.PAUSED)
        elif self.stage == "stopping" and passed > 0.2:
            flags, at = Gst.SeekFlags.FLUSH, int(self.seek * Gst.SECOND)
            if not self.pipe.seek_simple(Gst.Format.TIME, flags, at):
                self.troubles.append("no seek")
            self.turn("sought", Gst.State.PLAYING)
        elif self.stage == "sought" and self.everything_shows("sought", 0.5):
            # Not every BYE reaches the pipeline's end after a seek; silence is one too.
            ended = ended or time.monotonic() - self.latest > SILENCE
        if passed > PATIENCE:
            self.troubles.append(f"nothing more after {self.stage}")
        return not ended and not self.troubles


Gst.init(None)
players = {url: Player(url, float(sys.argv[1])) for url in sys.argv[2:]}
playing = list(players.values())
while playing:
    playing = [player for player in playing if player.step()]
    time.sleep(0.01)
told = {url: {"troubles": it.troubles, "tracks": it.tracks} for url, it in players.items()}
print(json.dumps(told), flush=True)
# Taking pipelines down while they still receive can wait for itself for ever in GStreamer 1.22.
os._exit(0)
