//! What a node's server says of itself, for metrics.

/// What a node's server says of itself, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// `None`: it has no bound, or does not tell.
    pub memory: Option<Memory>,
    /// When the first of the certificates ends that it has shown, in seconds since 1970.
    pub certificate_expires: Option<u64>,
}

impl Server {
    /// The worse of both, in each regard.
    pub(crate) fn worse(self, other: Server) -> Server {
        let fuller = |one: Memory, other: Memory| {
            let (mine, theirs) = (
                u128::from(one.used) * u128::from(other.limit),
                u128::from(other.used) * u128::from(one.limit),
            );
            if mine >= theirs { one } else { other }
        };
        let both = self.memory.zip(other.memory);
        let ends = self.certificate_expires.into_iter();
        Server {
            memory: both
                .map(|(one, other)| fuller(one, other))
                .or(self.memory)
                .or(other.memory),
            certificate_expires: ends.chain(other.certificate_expires).min(),
        }
    }
}

/// How much memory a server uses, and may, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it uses.
    pub used: u64,
    /// What it may use; not 0.
    pub limit: u64,
}
