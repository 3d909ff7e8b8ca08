//! The listening socket, in a process that may close any descriptor at any time.
//!
//! Daemons close all descriptors they do not know, and open files of their own under the same numbers. So a number is used only after a look at what
//! is behind it, and lies high, where programs that expect the lowest free number do not meet it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};

/// Numbers from here on are preferred.
const HIGH: RawFd = 960;

/// What makes a descriptor the same one.
type Identity = (libc::dev_t, libc::ino_t);

/// A listening socket; closed when dropped if it is still the same one.
#[derive(Debug)]
pub(super) struct Socket {
    /// `None` only while it is dropped.
    listener: Option<TcpListener>,
    place: Place,
}

/// A descriptor's number and what was behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    number: RawFd,
    identity: Option<Identity>,
}

impl Socket {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let low = Self::of(TcpListener::bind(address)?);
        // Where there is a high number, the low one is closed with its owner, unless the program has taken it meanwhile.
        Ok(low.lifted().unwrap_or(low))
    }

    fn of(listener: TcpListener) -> Self {
        let number = listener.as_raw_fd();
        Self { listener: Some(listener), place: Place { number, identity: identity(number) } }
    }

    /// The same socket under a high number; `None` where there is none, or what is there is not the same.
    fn lifted(&self) -> Option<Self> {
        // SAFETY: duplicates whatever is behind the number, if anything.
        let high = unsafe { libc::fcntl(self.place.number, libc::F_DUPFD_CLOEXEC, HIGH) };
        // SAFETY: a new descriptor that nobody else has.
        let lifted = (high >= 0).then(|| Self::of(unsafe { TcpListener::from_raw_fd(high) }))?;
        (lifted.place.identity == self.place.identity).then_some(lifted)
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().ok_or_else(lost)?.local_addr()
    }

    /// The next connection; `EBADF` once the descriptor is another's or nobody's.
    pub(super) fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.listener {
            Some(listener) if self.place.is_same() => listener.accept(),
            _ => Err(lost()),
        }
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.take().filter(|_| !self.place.is_same()) {
            // Another's by now: not ours to close.
            let _ = listener.into_raw_fd();
        }
    }
}

impl Place {
    fn is_same(&self) -> bool {
        self.identity.is_some() && identity(self.number) == self.identity
    }

    /// Closes the socket in a forked child, where the parent's `Socket` is of no use. Async-signal-safe.
    pub(super) fn close(&self) {
        if self.is_same() {
            // SAFETY: the socket of the parent, which nobody uses in this process.
            unsafe { libc::close(self.number) };
        }
    }
}

/// Whether an error of [`Socket::accept`] means that the socket is gone.
pub(super) fn is_lost(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADF)
}

fn lost() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

fn identity(number: RawFd) -> Option<Identity> {
    // SAFETY: all-zero is a valid `stat` to be filled.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fills `found` for any number.
    (unsafe { libc::fstat(number, &mut found) } == 0).then_some((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_became_another_files_is_neither_used_nor_closed() {
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let number = socket.place.number;
        assert!(number >= HIGH);
        let other = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: puts another file under the number, as a program might.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert!(is_lost(&socket.accept().unwrap_err()));
        drop(socket);
        assert!(identity(number).is_some(), "still open");
        // SAFETY: opened above.
        unsafe { libc::close(number) };
    }
}
