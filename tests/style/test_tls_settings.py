#!/usr/bin/python3
"""TLS is set up in one place: common/net/tls_settings. Nothing else sets an option of a context or
of a connection, whether it links OpenSSL or loads it.

usage: test_tls_settings.py     run by hand or by `meson test`
"""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("common", "coordinator", "worker", "cli")
OWNER = {"common/net/tls_settings.h", "common/net/tls_settings.cpp"}
# Every setter of OpenSSL, its openssl.cnf too, and Asio's wrappers of them. A BIO is no setting.
SETS = re.compile(
    r"\bSSL_(?:CTX_)?(?:set|clear|add|use)\d?_(?!bio\b)\w+|\bSSL_(?:CTX_)?(?:ctrl|callback_ctrl|config)\b|"
    r"\bSSL_CONF_\w+|\bssl::(?:context|stream)\b"
)
COMMENT = re.compile(r"//[^\n]*")


def setters(root):
    """PATH:LINE NAME of every setting outside of its owner."""
    found = []
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cpp", ".cu") or name in OWNER:
                continue
            text = COMMENT.sub("", path.read_text(encoding="utf-8"))
            found += [f"{name}:{text.count(chr(10), 0, m.start()) + 1} {m[0]}" for m in SETS.finditer(text)]
    return found


class TlsSettings(unittest.TestCase):
    def test_one_owner(self):
        self.assertEqual(setters(ROOT), [])

    def test_the_owner_is_seen(self):
        for name in OWNER:
            self.assertTrue(SETS.search((ROOT / name).read_text(encoding="utf-8")), name)

    def test_a_stranger_is_seen(self):
        for line, name in (
            ("SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);", "SSL_CTX_set_options"),
            ("lib.SSL_CTX_ctrl(ctx, SSL_CTRL_MODE, 1, nullptr);", "SSL_CTX_ctrl"),
            ("SSL_set_verify(ssl, SSL_VERIFY_NONE, nullptr);", "SSL_set_verify"),
            ("SSL_CTX_use_certificate(ctx, c);", "SSL_CTX_use_certificate"),
            ("asio::ssl::context context(asio::ssl::context::tls);", "ssl::context"),
        ):
            with self.subTest(line), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "worker" / "a.cpp"
                path.parent.mkdir()
                path.write_text("// SSL_CTX_set_mode\n" + line + "\nSSL_set_bio(ssl, bio, bio);\n")
                self.assertEqual(setters(pathlib.Path(folder))[0], f"worker/a.cpp:2 {name}")
                self.assertNotIn("bio", "".join(setters(pathlib.Path(folder))))


if __name__ == "__main__":
    sys.exit(unittest.main())
