"""GStreamer's RTSP server for one file of MPEG-TS, a pipeline for each client.

usage: gst_server.py PORT FILE
"""
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_service(sys.argv[1])
factory = GstRtspServer.RTSPMediaFactory()
factory.set_launch(
    f'( filesrc location="{sys.argv[2]}" ! tsparse set-timestamps=true alignment=7 '
    "! rtpmp2tpay name=pay0 pt=33 )"
)
server.get_mount_points().add_factory("/film", factory)
server.attach(None)
GLib.MainLoop().run()
