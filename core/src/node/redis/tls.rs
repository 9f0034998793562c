//! TLS: rustls with ring. It always verifies; no switch turns that off.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};

use super::words;
use crate::error::Error;
use crate::event::{LogEvent, event};
use crate::mutex::lock;

/// The TLS settings of a client, read and checked. Files are read again before each
/// connection, for certificates are renewed while a client lives; the system's certificates
/// are read when a connection first needs them.
#[derive(Clone, Default)]
pub(crate) struct Tls(Arc<TlsSettings>);

#[derive(Default)]
struct TlsSettings {
    ca: Option<Source>,
    cert: Option<Source>,
    key: Option<Source>,
    last: Mutex<LastRead>,
}

/// What was read last and is good.
#[derive(Default)]
struct LastRead {
    trusted: TrustStore,
    /// The faults of the files as they are now, which the log has reported.
    told: Option<String>,
}

type Roots = Option<Arc<RootCertStore>>;
type Identity = Option<Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>>;

#[derive(Clone, Default)]
struct TrustStore {
    roots: Roots,
    identity: Identity,
}

/// The path of a PEM file, or its text.
struct Source {
    given: String,
    /// Whole, for the program may go to another directory; `None` for a text.
    path: Option<PathBuf>,
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
        if cert.is_some() != key.is_some() {
            return Err(Error::invalid("cert and key go together: give both"));
        }
        let [ca, cert, key] = [ca, cert, key].map(|given| given.map(Source::new));
        let settings = TlsSettings {
            ca,
            cert,
            key,
            last: Mutex::default(),
        };
        let trusted = TrustStore {
            roots: settings.roots()?,
            identity: settings.identity()?,
        };
        lock(&settings.last).trusted = trusted;
        Ok(Tls(Arc::new(settings)))
    }

    /// The configuration for a connection. Reads the files, and those of the system where no `ca`
    /// is given. Where a file is not good any more, the last good one serves on, and the log
    /// reports that once.
    pub(crate) fn config(&self, warn: impl Fn(LogEvent)) -> Result<Arc<ClientConfig>, String> {
        let Tls(settings) = self;
        if !settings.are_files() {
            let trusted = lock(&settings.last).trusted.clone();
            return trusted.config();
        }
        // The authorities and the identity serve on independently of each other.
        let (roots, identity) = (settings.roots(), settings.identity());
        let mut last = lock(&settings.last);
        let errors = [roots.as_ref().err(), identity.as_ref().err()];
        let errors: Vec<&str> = errors.into_iter().flatten().map(Error::detail).collect();
        let errors = Some(errors.join("; ")).filter(|errors| !errors.is_empty());
        if (last.told != errors)
            && let Some(errors) = &errors
        {
            warn(event!(
                "tls_files_broken",
                "what was read before is used on for TLS: {reason}",
                reason = errors,
            ));
        }
        last.told = errors;
        if let Ok(roots) = roots {
            last.trusted.roots = roots;
        }
        if let Ok(identity) = identity {
            last.trusted.identity = identity;
        }
        let trusted = last.trusted.clone();
        drop(last);
        trusted.config()
    }
}

impl TlsSettings {
    fn sources(&self) -> impl Iterator<Item = &Source> {
        [&self.ca, &self.cert, &self.key].into_iter().flatten()
    }

    fn are_files(&self) -> bool {
        self.sources().any(|source| source.path.is_some())
    }

    /// What stands in `ca` now, or why that is not good.
    fn roots(&self) -> Result<Roots, Error> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in ca.certificates("ca")? {
            roots.add(certificate).map_err(|e| {
                let remedy = words::remedy(&e.to_string());
                Error::invalid(format!("ca: a certificate is not usable: {e}{remedy}"))
            })?;
        }
        Ok(Some(Arc::new(roots)))
    }

    /// What stands in `cert` and `key` now, or why that is not good.
    fn identity(&self) -> Result<Identity, Error> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return Ok(None);
        };
        let pem = key.pem("key")?;
        let key = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|e| malformed("key", "private key", &pem, &e))?;
        let shown = cert.certificates("cert")?;
        // The check here finds a key that does not fit its certificate.
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(shown.clone(), key.clone_key(), &provider).map_err(|e| {
            let remedy = words::remedy(&e.to_string());
            Error::invalid(format!("cert and key: {e}{remedy}"))
        })?;
        Ok(Some(Arc::new((shown, key))))
    }
}

impl TrustStore {
    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let roots = match &self.roots {
            Some(roots) => roots.clone(),
            None => {
                let mut roots = RootCertStore::empty();
                let system = rustls_native_certs::load_native_certs();
                if system.certs.is_empty() {
                    return Err(words::NO_AUTHORITIES.into());
                }
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

impl Source {
    fn new(given: String) -> Source {
        let is_text = given.contains("-----BEGIN");
        let path =
            (!is_text).then(|| std::path::absolute(&given).unwrap_or_else(|_| (&given).into()));
        Source { given, path }
    }

    fn certificates(&self, what: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
        let pem = self.pem(what)?;
        let wrong = |e: &pem::Error| malformed(what, "certificate", &pem, e);
        let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|e| wrong(&e))?;
        if found.is_empty() {
            Err(wrong(&pem::Error::NoItemsFound))
        } else {
            Ok(found)
        }
    }

    /// The bytes of the PEM file.
    fn pem(&self, what: &str) -> Result<Vec<u8>, Error> {
        let (text, Some(path)) = (&self.given, &self.path) else {
            return Ok(self.given.as_bytes().to_vec());
        };
        std::fs::read(path).map_err(|e| {
            if what == "ca" && is_path(text) {
                return Error::invalid(format!(
                    "{what}: the file `{}` cannot be read: {e}",
                    text.escape_debug()
                ));
            }
            let below = match known(text) {
                Some(house) => format!(" below `{}`", house.display().to_string().escape_debug()),
                None => String::new(),
            };
            Error::invalid(format!(
                "{what}: no file of that name{below} can be read ({e}), and it is no PEM text, for it \
                 has no line -----BEGIN …-----. It is not shown, for it may be a key; it has {} \
                 characters. Give the path of a PEM file, or the whole text of one",
                text.chars().count()
            ))
        })
    }
}

/// The directories with which a path begins as far as they stand on this machine: what is there
/// is no secret of the text.
fn known(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let mut houses = path.ancestors().skip(1);
    let house = houses.find(|house| house.parent().is_some() && house.is_dir())?;
    Some(house.to_owned())
}

/// Whether a text is the path of a certificate beyond doubt, so that an error may show it. What was
/// meant as the text of a key and lost its frame is none: base64 has slashes, too, but no dots.
fn is_path(text: &str) -> bool {
    let ends = ["pem", "crt", "cer", "cert", "ca", "der"];
    let end = Path::new(text).extension().and_then(|end| end.to_str());
    let named = end.is_some_and(|end| ends.contains(&&*end.to_ascii_lowercase()));
    // A longer word of a path could be part of a key, so it is not shown.
    let short = text.split(['/', '\\']).all(|word| word.len() <= 24);
    let plain = |c: char| c.is_alphanumeric() || " /\\._-~".contains(c);
    named && short && text.len() <= 200 && text.chars().all(plain)
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
    if let Some(why) = words::form(text) {
        return Error::invalid(format!("{what}: {why}"));
    }
    let flat = text.windows(2).any(|pair| pair == br"\n");
    let hint = if flat {
        r"; it has `\n` where its lines end: put line breaks there"
    } else {
        ""
    };
    Error::invalid(format!("{what}: no {wanted} in PEM form: {why}{hint}"))
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
        given.unwrap_err().detail().to_owned()
    }

    /// A key that can be read: of Ed25519, as `openssl genpkey` makes them.
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
            // These keys have lost their frame, or their line breaks.
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
    fn of_a_path_that_cannot_be_read_is_shown_what_is_no_secret() {
        for path in ["/nonexistent/tls/ca.crt", "certs/Authority.PEM"] {
            let ca = said("ca", path);
            assert!(ca.contains(&format!("the file `{path}` cannot")), "{ca}");
            for what in ["cert", "key"] {
                let said = said(what, path);
                assert!(
                    !said.contains("nonexistent") && !said.contains("uth"),
                    "{said}"
                );
            }
        }
        let here = std::env::temp_dir();
        let here = here.to_str().unwrap().trim_end_matches('/');
        for name in ["s3cret", "s3cret/s3cret.pem", "s3cret:s3cret.crt"] {
            for what in ["ca", "cert", "key"] {
                let said = said(what, &format!("{here}/{name}"));
                assert!(
                    said.contains(&format!("below `{here}`")) || what == "ca",
                    "{said}"
                );
                assert!(!said.contains("s3cret") || name.contains(".pem"), "{said}");
            }
        }
        for text in ["client", "redis://u:s3cret@h/ca.crt", "u:s3cret@h.pem"] {
            let said = said("ca", text);
            assert!(said.contains("no file of that name can be read"), "{said}");
        }
    }

    /// Certificates that were signed by themselves, and their keys; of Ed25519, by openssl.
    const CERT_A: &str = "-----BEGIN CERTIFICATE-----\n\
                     MIIBKzCB3qADAgECAhRXGtNXBscOD5NHbabeJgIqlc/3fjAFBgMrZXAwDDEKMAgG\n\
                     A1UEAwwBYTAgFw0yNjExMjgxMjUxMjFaGA8yMTI2MTEwNDEyNTEyMVowDDEKMAgG\n\
                     A1UEAwwBYTAqMAUGAytlcAMhAH3xaR178+l2D2yf1zfhJYLTe89SWfudfyNdp1D9\n\
                     piRSo1AwTjAdBgNVHQ4EFgQUqucx+EIyY3dbQ3Qeg19ZFaQWzHYwHwYDVR0jBBgw\n\
                     FoAUqucx+EIyY3dbQ3Qeg19ZFaQWzHYwDAYDVR0TAQH/BAIwADAFBgMrZXADQQAl\n\
                     D1nTYUQVaXC0ddMWtuaOXBhHpPNaEl6OO5hcTBQe3ghHuXLkDZ1mMhXFkwaF28EF\n\
                     hpdymwrUpMy+DHa+hTAL\n\
                     -----END CERTIFICATE-----\n";
    const KEY_A: &str = "-----BEGIN PRIVATE KEY-----\n\
                     MC4CAQAwBQYDK2VwBCIEIF91neV0FJVy51U9hqu7x+ymrq3Xs9nK9XBvAl3jKcy2\n\
                     -----END PRIVATE KEY-----\n";
    const CERT_B: &str = "-----BEGIN CERTIFICATE-----\n\
                     MIIBKzCB3qADAgECAhQ5n0A+vXDbI16wVMcc39jATRjcmzAFBgMrZXAwDDEKMAgG\n\
                     A1UEAwwBYjAgFw0yNjExMjgxMjUxMjFaGA8yMTI2MTEwNDEyNTEyMVowDDEKMAgG\n\
                     A1UEAwwBYjAqMAUGAytlcAMhAEJTy5Gl+MKPXAIG8r+mWk7Soj3bMCiuM7ndYuEh\n\
                     uUlQo1AwTjAdBgNVHQ4EFgQUBw+zrDD6FCPD8U7cFUlbB6leKpowHwYDVR0jBBgw\n\
                     FoAUBw+zrDD6FCPD8U7cFUlbB6leKpowDAYDVR0TAQH/BAIwADAFBgMrZXADQQDT\n\
                     eIW6NXjLWKiQsbLKs2mSt8RF3jTjrJuoBV0kqk67F09pPR3L+Yb/r2X4i/eeJM50\n\
                     QiA147/D35Ftzmd49XsJ\n\
                     -----END CERTIFICATE-----\n";
    const KEY_B: &str = "-----BEGIN PRIVATE KEY-----\n\
                     MC4CAQAwBQYDK2VwBCIEIMJKzMKTTm2gXAOJpxxiqKPWAQ6NhsVAiCMpGbIsI01g\n\
                     -----END PRIVATE KEY-----\n";

    /// A folder of its own, with files of these names.
    fn files(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let name = format!("quorlock-tls-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            std::fs::write(folder.join(file), text).unwrap();
        }
        folder
    }

    /// What the next connection trusts and shows, as the bytes of the certificates; and what the
    /// log was given.
    fn next(tls: &Tls) -> (Vec<u8>, Vec<u8>, Vec<String>) {
        let told = Mutex::new(Vec::new());
        tls.config(|line| lock(&told).push(line.to_string()))
            .unwrap();
        let TrustStore { roots, identity } = lock(&tls.0.last).trusted.clone();
        let roots = roots.map_or(Vec::new(), |r| r.roots[0].subject.to_vec());
        let shown = identity.map_or(Vec::new(), |i| i.0[0].to_vec());
        (roots, shown, told.into_inner().unwrap())
    }

    fn bytes(pem: &str) -> Vec<u8> {
        CertificateDer::from_pem_slice(pem.as_bytes())
            .unwrap()
            .to_vec()
    }

    #[test]
    fn files_that_have_changed_are_read_again_and_broken_ones_told_once() {
        let folder = files(
            "renewed",
            &[("ca", CERT_A), ("cert", CERT_A), ("key", KEY_A)],
        );
        let at = |file: &str| Some(folder.join(file).to_str().unwrap().to_owned());
        let put = |file: &str, text: &str| std::fs::write(folder.join(file), text).unwrap();
        let tls = Tls::new(at("ca"), at("cert"), at("key")).unwrap();
        let (before, shown, told) = next(&tls);
        assert_eq!((shown, told.len()), (bytes(CERT_A), 0));
        // In the middle of a renewal the certificate and the key do not fit.
        put("cert", CERT_B);
        let (_, shown, told) = next(&tls);
        assert_eq!(shown, bytes(CERT_A));
        assert!(told[0].contains("cert and key"), "{told:?}");
        assert_eq!(next(&tls).2, [""; 0], "told twice");
        // The good part of the files serves.
        put("ca", CERT_B);
        let (after, shown, _) = next(&tls);
        assert_ne!(before, after);
        assert_eq!(shown, bytes(CERT_A));
        put("key", KEY_B);
        let (_, shown, told) = next(&tls);
        assert_eq!((shown, told.len()), (bytes(CERT_B), 0));
        // A file that is gone is another fault than a file without a certificate.
        for (broken, word) in [("", "no certificate"), ("x", "no certificate")] {
            put("ca", broken);
            let (roots, _, told) = next(&tls);
            assert_eq!(roots, after);
            assert_eq!(
                told.iter().any(|line| line.contains(word)),
                broken.is_empty()
            );
        }
        std::fs::remove_file(folder.join("ca")).unwrap();
        let (roots, _, told) = next(&tls);
        assert!(
            roots == after && told[0].contains("no file of that name below"),
            "{told:?}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_was_given_as_a_text_is_read_once() {
        let tls = Tls::new(Some(CERT_A.into()), None, None).unwrap();
        assert!(!tls.0.are_files());
        assert_eq!(next(&tls).2.len(), 0);
    }
}
