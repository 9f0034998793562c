"""Certificates as people have them, and TLS where there is none: the error says what to do."""

import os
import shutil
import subprocess
import tempfile
import unittest

import quorlock
from support import LONG, Stage


class Certificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage = Stage(1, tls=True)
        cls.addClassCleanup(cls.stage.close)
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        shutil.copytree(cls.stage.certs, cls.folder, dirs_exist_ok=True)
        cls.ca = os.path.join(cls.folder, "ca.crt")

    def path(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *words):
        done = subprocess.run(["openssl", *words], cwd=self.folder, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.stdout + done.stderr

    def file(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def assert_told(self, words, url=None, **files):
        with self.assertRaises(quorlock.QuorlockError) as raised:
            quorlock.Client([url or self.stage.urls(via="tls")[0]], wait=0, connect_timeout=LONG, **files).lock("a").acquire()
        for word in words:
            self.assertIn(word, str(raised.exception))

    def shows(self, name, authority=None):
        """The server shows that certificate from here on."""
        files = ["tls-cert-file", self.path(f"{name}.crt"), "tls-key-file", self.path(f"{name}.key")]
        self.stage.redis(1, "CONFIG", "SET", *files, "tls-ca-cert-file", authority or self.ca)

    def test_a_port_of_the_other_kind(self):
        tls = self.stage.urls(via="tls")[0]
        self.assert_told(["as a TLS port does to redis:// (write rediss://)"], tls.replace("rediss:", "redis:"))
        with self.assertRaises(quorlock.QuorumUnavailableError) as raised:
            plain = self.stage.urls()[0].replace("redis:", "rediss:")
            quorlock.Client([plain], wait=0, ca=self.ca, connect_timeout=0.5).lock("a").acquire()
        self.assertIn("write redis://", str(raised.exception))

    def test_a_certificate_of_an_authority_or_of_version_1(self):
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=localhost"]
        self.openssl("req", "-x509", *new, "-keyout", "self.key", "-out", "self.crt", "-addext", "subjectAltName=IP:127.0.0.1")
        # OpenSSL makes version 3 where nothing is said, since 3.4, which has an option for the first.
        authority = ["-CA", "ca.crt", "-CAkey", "ca.key", "-days", "30", "-out", "v1.crt"]
        if "-x509v1" in self.openssl("req", "-help"):
            # The usual settings have extensions, which version 1 has not.
            plain = self.file("plain.cnf", b"[req]\ndistinguished_name=dn\n[dn]\n")
            self.openssl("req", "-config", plain, "-x509", "-x509v1", *new[:5], "-subj", "/CN=localhost", "-keyout", "v1.key", *authority)
        else:
            self.openssl("req", "-new", *new[:5], "-subj", "/CN=localhost", "-keyout", "v1.key", "-out", "v1.csr")
            self.openssl("x509", "-req", "-in", "v1.csr", *authority)
        self.addCleanup(self.shows, "server")
        self.shows("self", self.path("self.crt"))
        self.assert_told(["(CA:TRUE)", "Issue one for the server"], ca=self.path("self.crt"))
        self.shows("v1")
        self.assert_told(["not of version 3", "subjectAltName"], ca=self.ca)

    def test_an_authority_that_is_not_trusted(self):
        self.assert_told(["Give its authority as ca"], ca=self.path("wrong-ca.crt"))
        self.stage.redis(1, "CONFIG", "SET", "tls-auth-clients", "yes")
        self.addCleanup(self.stage.redis, 1, "CONFIG", "SET", "tls-auth-clients", "no")
        self.assert_told(["Give cert and key"], ca=self.ca)
        wrong = {"cert": self.path("wrong-client.crt"), "key": self.path("wrong-client.key")}
        self.assert_told(["does not trust the authority of cert"], ca=self.ca, **wrong)

    def test_keys_and_files_in_other_forms(self):
        self.openssl("pkey", "-in", "client.key", "-aes256", "-passout", "pass:secret", "-out", "encrypted.key")
        mine = {"ca": self.ca, "cert": self.path("client.crt")}
        self.assert_told(["key: the private key is encrypted", "openssl pkey"], **mine, key=self.path("encrypted.key"))
        self.assert_told(["the key is another certificate's"], **mine, key=self.path("wrong-client.key"))
        marked = b"\xef\xbb\xbf" + self.read("ca.crt")
        for content, word in ((marked, "byte order mark"), (self.read("ca.crt").decode().encode("utf-16"), "UTF-16")):
            self.assert_told(["ca: the file", word], ca=self.file("other.crt", content))
        self.openssl("x509", "-in", "ca.crt", "-outform", "der", "-out", "ca.der")
        self.assert_told(["ca: the file is DER"], ca=self.path("ca.der"))


if __name__ == "__main__":
    unittest.main()
