"""Times in a log of histograms (HdrHistogram, version 2 of its encoding)."""
import base64
import struct
import zlib

HEAD = struct.Struct(">iiiiqqd")


def times(path):
    """Milliseconds and counts of the series without a tag, all lines together, in order."""
    found = {}
    for line in open(path):
        words = line.strip().split(",")
        if line.startswith("#") or len(words) != 4 or not words[3].startswith("HIST"):
            continue
        # A cookie and a length precede what is packed.
        packed = zlib.decompress(base64.b64decode(words[3])[8:])
        digits = HEAD.unpack_from(packed)[3]
        half = 1 << ((2 * 10**digits - 1).bit_length() - 1)
        at, index = HEAD.size, 0
        while at < len(packed):
            number, shift = 0, 0
            while True:
                byte, at = packed[at], at + 1
                number |= (byte if shift == 56 else byte & 0x7F) << shift
                shift += 7
                if shift == 63 or byte < 0x80:
                    break
            count = (number >> 1) ^ -(number & 1)
            if count > 0:
                octave, part = index // half - 1, index % half + half
                ns = part << octave if octave >= 0 else part - half
                found[ns] = found.get(ns, 0) + count
            index += max(1, -count)
    return [(ns / 1e6, found[ns]) for ns in sorted(found)]
