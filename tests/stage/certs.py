"""Certificates for TLS tests, made with the openssl command: a CA, a server, a client, and a CA nobody trusts."""

import os
import subprocess
import threading

CA = """[req]
distinguished_name=dn
prompt=no
x509_extensions=ext
[dn]
CN={name}
[ext]
basicConstraints=critical,CA:TRUE
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash
"""
LEAF = """basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage={usage}
subjectAltName=DNS:localhost,IP:127.0.0.1
"""


_MAKING = threading.Lock()


def _openssl(folder, *words):
    done = subprocess.run(["openssl", *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr.strip()}")


def _write(folder, name, content):
    with open(os.path.join(folder, name), "w") as file:
        file.write(content)


def _key(folder, name):
    _openssl(folder, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")


def _authority(folder, name, days):
    _write(folder, f"{name}.cnf", CA.format(name=name))
    _key(folder, name)
    _openssl(folder, "req", "-x509", "-new", "-key", f"{name}.key", "-days", str(days), "-config", f"{name}.cnf",
             "-out", f"{name}.crt")


def _leaf(folder, name, authority, usage, days):
    _write(folder, f"{name}.ext", LEAF.format(usage=usage))
    _key(folder, name)
    _openssl(folder, "req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr")
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key",
             "-CAcreateserial", "-days", str(days), "-extfile", f"{name}.ext", "-out", f"{name}.crt")


def make(folder, days=30):
    """Writes ca, server, client and wrong-ca, wrong-client (.crt and .key) into the folder, once. They are good for so many days."""
    with _MAKING:
        if not os.path.exists(os.path.join(folder, "done")):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _authority(folder, "ca", days)
            _authority(folder, "wrong-ca", days)
            # Servers of a cluster are clients of each other.
            _leaf(folder, "server", "ca", "serverAuth,clientAuth", days)
            _leaf(folder, "client", "ca", "clientAuth", days)
            _leaf(folder, "wrong-client", "wrong-ca", "clientAuth", days)
            _write(folder, "done", "")
    return folder
