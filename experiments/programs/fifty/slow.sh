#!/bin/sh
# Go's server that listens after N seconds.
sleep "$2"; exec ./server "$1" http $3
