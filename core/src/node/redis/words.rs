//! What to do about certificates as people have them: the library's own errors do not say that.

/// There is nothing to verify a server by.
pub(super) const NO_AUTHORITIES: &str = "this machine has no certificates of authorities: install them (the package \
     ca-certificates), or give the server's authority as ca";

/// What to add to an error of TLS; nothing where it is clear.
pub(super) fn remedy(error: &str) -> &'static str {
    const REMEDIES: [(&str, &str); 10] = [
        (
            "CaUsedAsEndEntity",
            ": the server shows the certificate of an authority (CA:TRUE). Issue one for the server, signed by that \
             authority, and give that as ca",
        ),
        (
            "UnsupportedCertVersion",
            ": a certificate is not of version 3. Issue it with its extensions (openssl x509 -req -extfile), among \
             them subjectAltName",
        ),
        (
            "UnknownIssuer",
            ": no authority that is trusted here has signed the server's certificate. Give its authority as ca",
        ),
        (
            "NotValidForName",
            ": the server's certificate is for other names. Write the name that its subjectAltName has into the URL",
        ),
        (
            "not valid for name",
            ": write a name that its subjectAltName has into the URL",
        ),
        (
            "Expired",
            ": renew the certificate, or set the clock of this machine",
        ),
        ("KeyMismatch", ": the key is another certificate's"),
        (
            "InvalidContentType",
            ": what answers does not speak TLS there. Write redis:// for such a port",
        ),
        (
            "CertificateRequired",
            ": the server wants to see a certificate. Give cert and key",
        ),
        (
            "UnknownCA",
            ": the server does not trust the authority of cert. Give a certificate of one that it trusts \
             (tls-ca-cert-file)",
        ),
    ];
    let known = REMEDIES.iter().find(|(sign, _)| error.contains(sign));
    known.map_or("", |(_, remedy)| remedy)
}

/// Why a text is not in PEM form as it is read here, if that shows. The answer quotes nothing of
/// the text.
pub(super) fn form(text: &[u8]) -> Option<&'static str> {
    let has = |sign: &[u8]| text.windows(sign.len()).any(|at| at == sign);
    if has(b"ENCRYPTED") {
        return Some(
            "the private key is encrypted, and its password cannot be given here: write it without (openssl pkey -in \
             key.pem -out plain.pem), readable by this program alone",
        );
    }
    match text {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("the file is UTF-16: save it as UTF-8, without a byte order mark")
        }
        [0xef, 0xbb, 0xbf, ..] => {
            Some("the file begins with a byte order mark: save it as UTF-8 without one")
        }
        // A sequence of ASN.1 begins so.
        [0x30, 0x80..=0x84, ..] => Some(
            "the file is DER: write it as PEM (openssl x509 -inform der, openssl pkey -inform der)",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pem_is_named_by_its_form() {
        let told = |text: &[u8], word: &str| form(text).is_some_and(|why| why.contains(word));
        assert!(told(
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----",
            "openssl pkey"
        ));
        assert!(told(
            b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED",
            "openssl pkey"
        ));
        assert!(told(b"\xff\xfe-\0-\0", "UTF-16"));
        assert!(told(b"\xef\xbb\xbf-----BEGIN", "byte order mark"));
        assert!(told(b"0\x82\x03\x01", "DER"));
        assert_eq!(form(b"-----BEGIN CERTIFICATE-----"), None);
    }

    #[test]
    fn errors_of_certificates_say_what_to_do() {
        use rustls::{CertificateError, Error};
        let told = |error: Error, word: &str| remedy(&error.to_string()).contains(word);
        assert!(told(CertificateError::UnknownIssuer.into(), "as ca"));
        assert!(told(CertificateError::Expired.into(), "clock"));
        assert!(told(
            CertificateError::NotValidForName.into(),
            "subjectAltName"
        ));
        let corrupt = rustls::InvalidMessage::InvalidContentType;
        assert!(told(Error::InvalidMessage(corrupt), "redis://"));
        for (alert, word) in [
            (
                rustls::AlertDescription::CertificateRequired,
                "cert and key",
            ),
            (rustls::AlertDescription::UnknownCA, "tls-ca-cert-file"),
        ] {
            assert!(told(Error::AlertReceived(alert), word));
        }
        assert_eq!(remedy("Connection refused"), "");
    }
}
