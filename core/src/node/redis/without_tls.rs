//! In the place of TLS, where the crate is compiled without it.

use crate::error::Error;

/// No settings: a client that is given any is refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls(());

impl Tls {
    pub(crate) fn new(
        ca: Option<String>,
        cert: Option<String>,
        key: Option<String>,
    ) -> Result<Tls, Error> {
        match [ca, cert, key].iter().position(Option::is_some) {
            Some(at) => Err(Error::invalid(format!(
                "{} is for TLS, and {}",
                ["ca", "cert", "key"][at],
                crate::node::address::WITHOUT_TLS
            ))),
            None => Ok(Tls(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, ErrorKind};

    #[test]
    fn what_asks_for_tls_is_refused_in_one_sentence() {
        let refused = |url: &str, ca: Option<&str>| {
            let builder = Client::builder().nodes([url]);
            let builder = ca.into_iter().fold(builder, |builder, ca| builder.ca(ca));
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            error.detail().to_owned()
        };
        for url in [
            "rediss://h",
            "VALKEYS://h",
            "rediss+sentinel://h/m",
            "valkeys+cluster://h",
        ] {
            let told = refused(url, None);
            assert!(
                told.starts_with("node 1: the URL asks for TLS, and this"),
                "{told}"
            );
        }
        let told = refused("redis://h", Some("ca.pem"));
        assert!(told.starts_with("ca is for TLS, and this"), "{told}");
    }
}
