#!/usr/bin/python3
"""Makes a picture of every kind in a folder, and beside each, as NAME.rgb, the bytes that Pillow's
convert("RGB") gives of it.

PNGs are written by hand: Pillow writes no gamma, no interlacing, no two or four bits of grey.
16 bits of grey alone are expected as TensorFlow has them (the upper eight): Pillow cuts off what is
above 255, and hardly anything but white is left.
"""
import io
import struct
import sys
import zlib

from PIL import Image

COLUMNS, ROWS = 37, 29
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
          (0, 1, 1, 2))


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def sample(x, y, channel, most):
    return (x * 7 + y * 13 + channel * 101 + x * y) * 2654435761 % 4294967296 * (most + 1) >> 32


def scan_lines(columns, rows, kind, depth, most):
    """Lines of the given places, each with the filter 0 before it."""
    lines = b""
    for y in rows:
        bits = ""
        for x in columns:
            for channel in range(CHANNELS[kind]):
                bits += format(sample(x, y, channel, most), "0%db" % depth)
        bits += "0" * (-len(bits) % 8)
        lines += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
    return lines


def png(kind, depth, before=(), interlaced=False, palette=0):
    most = palette - 1 if palette else (1 << depth) - 1
    lines = b""
    for left, top, across, down in PASSES if interlaced else ((0, 0, 1, 1),):
        columns = range(left, COLUMNS, across)
        lines += scan_lines(columns, range(top, ROWS, down), kind, depth, most) if columns else b""
    header = struct.pack(">IIBBBBB", COLUMNS, ROWS, depth, kind, 0, 0, int(interlaced))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    late = [one for one in before if one[4:8] == b"tRNS"]
    data += b"".join(one for one in before if one not in late)
    if palette:
        colours = bytes((i * 83 + c * 59) % 256 for i in range(palette) for c in range(3))
        data += chunk(b"PLTE", colours)
    return data + b"".join(late) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def pngs():
    gamma = chunk(b"gAMA", struct.pack(">I", 100000))
    colour = {
        "gamma 1": [gamma],
        "gamma 0.45": [chunk(b"gAMA", struct.pack(">I", 45455))],
        "gamma 0.03": [chunk(b"gAMA", struct.pack(">I", 3000))],
        "srgb": [chunk(b"sRGB", b"\0")],
        "chromaticities": [gamma, chunk(b"cHRM", struct.pack(
            ">8I", 31270, 32900, 70000, 30000, 20000, 75000, 15000, 5000))],
        "profile": [chunk(b"iCCP", b"name\0\0" + zlib.compress(b"no profile" * 20))],
        "bits": [chunk(b"sBIT", b"\5\6\5")],
        "background": [chunk(b"bKGD", b"\0\xff\0\0\0\xff")],
        "colour key": [chunk(b"tRNS", b"\0\x10\0\x20\0\x30")],
    }
    for name, before in colour.items():
        yield "colour, " + name, png(2, 8, before)
    for interlaced in (False, True):
        kind = ", interlaced" if interlaced else ""
        for depth in (1, 2, 4, 8, 16):
            yield "grey of %d bits%s" % (depth, kind), png(0, depth, interlaced=interlaced)
            if depth < 16:
                yield "grey of %d bits with gamma%s" % (depth, kind), png(
                    0, depth, [gamma], interlaced)
                yield "grey key of %d bits%s" % (depth, kind), png(
                    0, depth, [chunk(b"tRNS", b"\0\1")], interlaced)
        for depth in (1, 2, 4, 8):
            size = 1 << depth if depth < 8 else 200
            yield "palette of %d bits%s" % (depth, kind), png(3, depth, [], interlaced, size)
            yield "palette of %d bits, transparent%s" % (depth, kind), png(
                3, depth, [gamma, chunk(b"tRNS", b"\0\x80")], interlaced, size)
        for depth in (8, 16):
            for name, before in (("", []), (" with gamma", [gamma])):
                yield "colour of %d bits%s%s" % (depth, name, kind), png(
                    2, depth, before, interlaced)
                yield "alpha of %d bits%s%s" % (depth, name, kind), png(
                    6, depth, before, interlaced)
                yield "grey with alpha of %d bits%s%s" % (depth, name, kind), png(
                    4, depth, before, interlaced)


def jpegs():
    base = Image.new("RGB", (COLUMNS, ROWS))
    base.putdata([tuple((x * 5 + y * 3 + c * 70) % 256 for c in range(3))
                  for y in range(ROWS) for x in range(COLUMNS)])
    for mode in ("L", "RGB", "CMYK"):
        picture = base.convert(mode)
        for progressive in (False, True):
            for sampling in (0, 1, 2) if mode == "RGB" else (-1,):
                out = io.BytesIO()
                more = {} if sampling < 0 else {"subsampling": sampling}
                picture.save(out, "JPEG", quality=85, progressive=progressive, **more)
                yield "%s%s %d" % (mode, " progressive" if progressive else "", sampling), \
                    out.getvalue()


def expected(name, data):
    picture = Image.open(io.BytesIO(data))
    if name.startswith("grey of 16 bits"):
        picture = picture.point(lambda value: value * (1 / 256)).convert("L")
    return picture.convert("RGB").tobytes()


def main(folder):
    for ending, kinds in ((".png", pngs()), (".jpg", jpegs())):
        for name, data in kinds:
            with open("%s/%s%s" % (folder, name, ending), "wb") as out:
                out.write(data)
            with open("%s/%s%s.rgb" % (folder, name, ending), "wb") as out:
                out.write(expected(name, data))


main(sys.argv[1])
