//! TLS: rustls with ring. It always verifies; no switch turns that off.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
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
                    .map_err(|e| Error::invalid(format!("key: no private key in PEM form: {e}")))?;
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

fn pem(what: &str, text: &str) -> Result<Vec<u8>, Error> {
    if text.contains("-----BEGIN") {
        return Ok(text.as_bytes().to_vec());
    }
    std::fs::read(text).map_err(|e| {
        // What is no path may be a key that was copied badly.
        let path = match text.len() > 200 || text.contains('\n') {
            true => "it is neither PEM text nor a path".to_owned(),
            false => format!("the file `{}` cannot be read", text.escape_debug()),
        };
        Error::invalid(format!("{what}: {path}: {e}"))
    })
}

fn certificates(what: &str, text: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = pem(what, text)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| Error::invalid(format!("{what}: not in PEM form: {e}")))?;
    if found.is_empty() {
        return Err(Error::invalid(format!(
            "{what}: no certificate in PEM form"
        )));
    }
    Ok(found)
}
