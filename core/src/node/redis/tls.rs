//! TLS: rustls with ring. It always verifies; no switch turns that off.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::Error;

/// The TLS settings of a client, read and checked; the system's certificates
/// are read when a connection first needs them.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    roots: Option<Arc<RootCertStore>>,
    identity: Option<Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads `ca`, `cert` and `key`: each the path of a PEM file, or its text.
    pub(crate) fn new(
        ca: Option<String>,
        cert: Option<String>,
        key: Option<String>,
    ) -> Result<Tls, Error> {
        let roots = match ca {
            None => None,
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates("ca", &ca)? {
                    roots.add(certificate).map_err(|e| {
                        Error::invalid(format!("ca: a certificate is not usable: {e}"))
                    })?;
                }
                Some(Arc::new(roots))
            }
        };
        let identity = match (cert, key) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                let pem = pem("key", &key)?;
                let key = PrivateKeyDer::from_pem_slice(&pem)
                    .map_err(|e| malformed("key", "private key", &pem, &e))?;
                Some(Arc::new((certificates("cert", &cert)?, key)))
            }
            _ => return Err(Error::invalid("cert and key go together: give both")),
        };
        let tls = Tls { roots, identity };
        if tls.roots.is_some() || tls.identity.is_some() {
            // A key that does not fit its certificate is found now.
            tls.config()
                .map_err(|e| Error::invalid(format!("cert and key: {e}")))?;
        }
        Ok(tls)
    }

    /// The configuration for a connection. Reads files of the system where no
    /// `ca` is given.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let roots = match &self.roots {
            Some(roots) => roots.clone(),
            None => {
                let mut roots = RootCertStore::empty();
                let system = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(system.certs);
                Arc::new(roots)
            }
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(identity.0.clone(), identity.1.clone_key())
                .map_err(|e| e.to_string())?,
        };
        Ok(Arc::new(config))
    }
}

/// The bytes of a PEM file, of its path or of its text.
fn pem(what: &str, text: &str) -> Result<Vec<u8>, Error> {
    if text.contains("-----BEGIN") {
        return Ok(text.as_bytes().to_vec());
    }
    std::fs::read(text).map_err(|e| match is_path(text) {
        true => Error::invalid(format!(
            "{what}: the file `{}` cannot be read: {e}",
            text.escape_debug()
        )),
        false => Error::invalid(format!(
            "{what}: it is no PEM text, for it has no line -----BEGIN …-----, and no file of that \
             name can be read. It is not shown, for it may be a key; it has {} characters. Give \
             the path of a PEM file, or the whole text of one",
            text.chars().count()
        )),
    })
}

/// Whether a text is a path beyond doubt, so that an error may show it. What was meant as the
/// text of a key and lost its frame is none: base64 has slashes, too, but no dots, and no
/// directory of this machine begins with it.
fn is_path(text: &str) -> bool {
    let path = Path::new(text);
    let plain = text.len() <= 200 && !text.contains(char::is_control);
    // A word of a path that is longer could be part of a key.
    let short = |word: &str| word.len() <= 40;
    let named = || {
        let ends = ["pem", "crt", "cer", "cert", "key", "ca", "der"];
        let end = path.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| ends.contains(&&*end.to_ascii_lowercase()))
    };
    let dotted = || {
        ["./", "../", "~/"]
            .iter()
            .any(|start| text.starts_with(start))
    };
    let stands = || path.symlink_metadata().is_ok();
    let housed = || {
        let house = path.parent().filter(|house| house.parent().is_some());
        path.is_absolute() && house.is_some_and(Path::is_dir)
    };
    plain && (stands() || text.split(['/', '\\']).all(short) && (named() || dotted() || housed()))
}

/// What is wrong with a PEM text, in words that show nothing of it: those of `pem::Error` have
/// whole lines.
fn malformed(what: &str, wanted: &str, text: &[u8], error: &pem::Error) -> Error {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "it has no -----END line: it was cut off",
        pem::Error::IllegalSectionStart { .. } => "its -----BEGIN line does not end in -----",
        pem::Error::Base64Decode(_) => "what stands between its lines is no base64",
        _ => "it has none of the kinds that can be read",
    };
    let flat = text.windows(2).any(|pair| pair == br"\n");
    let hint = match flat {
        true => r"; it has `\n` where its lines end: put line breaks there",
        false => "",
    };
    Error::invalid(format!("{what}: no {wanted} in PEM form: {why}{hint}"))
}

fn certificates(what: &str, text: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = pem(what, text)?;
    let wrong = |e: &pem::Error| malformed(what, "certificate", &pem, e);
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong(&e))?;
    match found.is_empty() {
        true => Err(wrong(&pem::Error::NoItemsFound)),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands between the lines of a key, made up; as long as one of P-256 is, and longer.
    const BODY: &str = "MHcCAQEEIBMs0hUYjnWUE1BHSO/yBdufupjL3oAGGEvFb4lZWh9QoAoGCCqGSM49\
                        AwEHoUQDQgAE5tEjzHbWnth563Hw2eK1yF0AhhLKGjJvstzr20wmtu8qWXKhqbh/\
                        n58DHmpsAsZFoAWD7FFso2FwzYthsgrHeA==";

    fn said(what: &str, text: &str) -> String {
        let text = Some(text.to_owned());
        let given = match what {
            "ca" => Tls::new(text, None, None),
            "key" => Tls::new(None, Some("/nonexistent/client.crt".into()), text),
            _ => Tls::new(None, text, Some(KEY.into())),
        };
        given.unwrap_err().message().to_owned()
    }

    /// One that can be read: of Ed25519, as `openssl genpkey` makes them.
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                       MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n\
                       -----END PRIVATE KEY-----\n";

    #[test]
    fn the_text_of_a_key_is_in_no_error() {
        let hex: String = BODY.bytes().map(|byte| format!("{byte:02x}")).collect();
        let framed = |start: &str, body: &str, end: &str| format!("{start}{body}{end}");
        let (begin, end) = (
            "-----BEGIN EC PRIVATE KEY-----",
            "-----END EC PRIVATE KEY-----",
        );
        let texts = [
            BODY.to_owned(),
            BODY[..10].to_owned(),
            format!("/{BODY}"),
            format!("/{}", &BODY[..10]),
            format!("{}.{}", &BODY[..20], &BODY[20..40]),
            format!("{}/{}", &BODY[..20], &BODY[20..40]),
            BODY.replace('/', "_").replace('+', "-"),
            format!("{BODY}{BODY}"),
            format!("{}\n{}\n", &BODY[..64], &BODY[64..]),
            hex,
            // Whose frame, or line breaks, did not survive.
            framed("BEGIN EC PRIVATE KEY\n", BODY, "\nEND EC PRIVATE KEY"),
            framed(&begin[1..], BODY, end),
            framed(begin, BODY, end),
            framed(begin, &format!(r"\n{BODY}\n"), end),
            framed(begin, &format!("\n{BODY}"), ""),
            framed(begin, &format!(" {BODY} "), end),
            framed(begin, &format!("\n{BODY}!\n"), end),
            framed(
                "\u{feff}-----BEGIN EC PRIVATE KEY-----\n",
                BODY,
                "\n-----END EC",
            ),
            framed(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n",
                BODY,
                "\n-----END OPENSSH PRIVATE KEY-----\n",
            ),
        ];
        for text in &texts {
            for what in ["ca", "cert", "key"] {
                let said = said(what, text);
                assert!(said.starts_with(&format!("{what}: ")), "{said}");
                let seen = [&BODY[..6], &BODY[20..26], "4d4863", "77, 72", "_n58"];
                assert!(!seen.iter().any(|part| said.contains(part)), "{said}");
            }
        }
        assert!(said("key", &texts[13]).contains(r"it has `\n` where its lines end"));
        assert!(said("key", &BODY[..10]).contains("10 characters"));
    }

    #[test]
    fn a_path_that_cannot_be_read_is_shown() {
        let here = std::env::temp_dir();
        let housed = here.join("no-such-file");
        for path in [
            "/nonexistent/tls/ca.crt",
            "certs/Client.PEM",
            "client.key",
            "./client",
            "../secrets/client",
            "~/client",
            housed.to_str().unwrap(),
            // A directory stands there.
            here.to_str().unwrap(),
        ] {
            for what in ["ca", "cert", "key"] {
                let said = said(what, path);
                assert!(
                    said.contains(&format!("the file `{path}` cannot")),
                    "{said}"
                );
            }
        }
    }
}
