"""Draws film.mp4, the film of `roundhouse demo media`: a turntable and its engine, ten seconds.

    python3 film.py | ffmpeg -f rawvideo -pix_fmt rgb24 -s 320x180 -r 25 -i - -c:v libx264 \
        -profile:v baseline -preset veryslow -crf 27 -g 25 -keyint_min 25 -sc_threshold 0 \
        -x264-params slices=6 -pix_fmt yuv420p -movflags +faststart film.mp4

A key picture each second and six slices a picture: each lost packet costs a sixth of a picture.
The last picture leads to the first, so the film repeats without a jump. Needs numpy.
"""

import sys

import numpy as np

W, H, FRAMES = 320, 180, 250
y, x = np.mgrid[0:H, 0:W] + 0.5


def mix(picture, colour, cover):
    cover = np.clip(cover, 0, 1)[..., None]
    return picture * (1 - cover) + np.array(colour, float) * cover


def disc(cx, cy, radius):
    return radius - np.hypot(x - cx, y - cy) + 0.5


def box(cx, cy, turn, along, across, at=(0, 0)):
    """A rectangle with half sides, at a place in the frame that is turned by `turn`."""
    u = (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn) - at[0]
    v = -(x - cx) * np.sin(turn) + (y - cy) * np.cos(turn) - at[1]
    return np.minimum(along - abs(u), across - abs(v)) + 0.5


def rails(picture, turn, start, end):
    for side in (-5, 5):
        middle, half = (start + end) / 2, (end - start) / 2
        picture = mix(picture, (128, 134, 140), box(CX, CY, turn, half, 1, (middle, side)))
    return picture


CX, CY = W / 2, 92
ground = np.full((H, W, 3), (58, 70, 62), float)
ground += (np.sin(x / 7) + np.sin(y / 5))[..., None] * 3
for track in range(12):
    turn = track * np.pi / 6
    ground = mix(ground, (86, 82, 74), box(CX, CY, turn, 60, 9, (118, 0)))
    ground = rails(ground, turn, 58, 178)
    if track not in (0, 6):
        ground = mix(ground, (150, 88, 60), box(CX, CY, turn, 16, 13, (104, 0)))
        ground = mix(ground, (178, 108, 74), box(CX, CY, turn, 16, 2, (104, 0)))
ground = mix(ground, (44, 46, 50), disc(CX, CY, 62))
ground = mix(ground, (104, 96, 84), disc(CX, CY, 58))

for frame in range(FRAMES):
    part = frame / FRAMES
    turn = 2 * np.pi * part
    picture = mix(ground, (70, 60, 52), box(CX, CY, turn, 57, 12))
    picture = rails(picture, turn, -57, 57)
    for wheel in (-26, -12, 2, 16):
        picture = mix(picture, (24, 26, 30), box(CX, CY, turn, 5, 11, (wheel, 0)))
    picture = mix(picture, (34, 92, 148), box(CX, CY, turn, 24, 8, (2, 0)))
    picture = mix(picture, (74, 142, 204), box(CX, CY, turn, 24, 3, (2, -2)))
    picture = mix(picture, (200, 100, 27), box(CX, CY, turn, 9, 9, (-28, 0)))
    picture = mix(picture, (236, 190, 90), box(CX, CY, turn, 2, 6, (28, 0)))
    chimney = (CX + 20 * np.cos(turn), CY + 20 * np.sin(turn))
    picture = mix(picture, (20, 20, 22), disc(*chimney, 4.5))
    for puff in range(6):
        age = (part * 15 + puff / 6) % 1
        where = (chimney[0] + 26 * age, chimney[1] - 34 * age)
        picture = mix(picture, (225, 228, 230), disc(*where, 2 + 9 * age) * 0.25 * (1 - age))
    bar = np.minimum(W * part - x, y - (H - 6)) + 0.5
    picture = mix(picture, (236, 154, 96), np.clip(bar, 0, 1))
    sys.stdout.buffer.write(np.clip(picture, 0, 255).astype(np.uint8).tobytes())
