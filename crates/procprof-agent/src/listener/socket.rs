//! The listening socket, in a process that may close any descriptor at any time.
//!
//! Usually its descriptor is in a table that the program does not see. Where it is in the program's: daemons close all
//! descriptors that are not theirs, and open files of their own under the same numbers. So a number is used only after
//! checking the file behind it, and is high, where it does not disturb programs that expect the lowest free number.

use crate::aside;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
#[cfg(target_os = "linux")]
use std::os::fd::FromRawFd;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
#[cfg(target_os = "linux")]
use std::time::Duration;

/// The identity of the file behind a descriptor.
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
    /// The socket and its address; port 0 takes a free one.
    pub(super) fn bind(address: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let listener: TcpListener = aside::lifted(TcpListener::bind(address)?.into()).into();
        let number = listener.as_raw_fd();
        let address = listener.local_addr()?;
        Ok((Self { listener: Some(listener), place: Place { number, identity: identity(number) } }, address))
    }

    /// The next connection; `EBADF` once the descriptor was closed or is another file's.
    pub(super) fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.listener {
            Some(listener) if self.place.is_same() => accept(listener),
            _ => Err(lost()),
        }
    }

    /// Whether its number does not disturb programs that expect the lowest free one.
    #[cfg(target_os = "linux")]
    pub(super) fn is_high(&self) -> bool {
        self.place.number >= aside::HIGH
    }

    /// Has [`Place::accept`] fail where no client waits.
    #[cfg(target_os = "linux")]
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        self.listener.as_ref().map_or(Ok(()), |listener| listener.set_nonblocking(true))
    }

    #[cfg(target_os = "linux")]
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// The place of the socket for a forked child, if it is in the program's table.
    pub(super) fn place_for_children(&self) -> Option<Place> {
        (!aside::has_own_table()).then_some(self.place)
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
    /// Whether the socket is there.
    pub(super) fn is_same(&self) -> bool {
        self.identity.is_some() && identity(self.number) == self.identity
    }

    #[cfg(target_os = "linux")]
    pub(super) fn number(&self) -> RawFd {
        self.number
    }

    /// Waits for a client, without a limit for `None`; whether there is one. `EBADF` where the socket is not there. No
    /// point of cancellation.
    #[cfg(target_os = "linux")]
    pub(super) fn wait(&self, length: Option<Duration>) -> io::Result<bool> {
        if !self.is_same() {
            return Err(lost());
        }
        let mut place = libc::pollfd { fd: self.number, events: libc::POLLIN, revents: 0 };
        let limit = length.map(|length| libc::timespec {
            tv_sec: length.as_secs() as i64,
            tv_nsec: i64::from(length.subsec_nanos()),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: one structure that may be written to, a limit or none, and no mask.
        let found = unsafe { libc::syscall(libc::SYS_ppoll, &raw mut place, 1, limit, std::ptr::null::<u64>(), 8) };
        match found {
            0 => Ok(false),
            1.. if place.revents & libc::POLLNVAL != 0 => Err(lost()),
            1.. => Ok(true),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The next connection; `EBADF` once the descriptor was closed or is another file's.
    #[cfg(target_os = "linux")]
    pub(super) fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        if !self.is_same() {
            return Err(lost());
        }
        // SAFETY: the socket, which its owner closes and this does not.
        let listener = std::mem::ManuallyDrop::new(unsafe { TcpListener::from_raw_fd(self.number) });
        accept(&listener)
    }

    /// Closes the socket in the calling thread's own table; in the program's it stays.
    #[cfg(target_os = "linux")]
    pub(super) fn leave(&self) {
        if aside::has_own_table() {
            self.close();
        }
    }

    /// Closes the socket in a forked child, where the parent's `Socket` is of no use. Async-signal-safe.
    pub(super) fn close(&self) {
        if self.is_same() {
            // SAFETY: the socket of the parent, which is not in use in this process.
            unsafe { libc::close(self.number) };
        }
    }
}

fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, client) = listener.accept()?;
    Ok((aside::lifted(OwnedFd::from(stream)).into(), client))
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
        let (socket, _) = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let number = socket.place.number;
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
