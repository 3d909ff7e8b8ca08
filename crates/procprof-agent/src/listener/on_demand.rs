//! A listener without a thread: the socket listens, and the program's own threads check now and then whether a client
//! has connected. The thread that answers starts then, and ends after the last request.
//!
//! A second thread, even one that sleeps, disables fast paths of the C library for processes with one thread. Once the
//! program has threads of its own there is nothing to save, and the thread is [kept](keep_thread).
//!
//! The socket is in the program's table of descriptors, under a high number. The thread that serves it takes it along
//! to a table of its own.

use super::socket::{Place, Socket, is_lost};
use super::{PAUSE, Service, Shared, serve};
use crate::aside;
use crate::lineage;
use crate::own_thread;
use crate::spin::Spin;
use std::io;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Least time between two checks for a client.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Least time between two attempts to bind the socket anew, or to start the thread.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Time without a connection after which the thread ends.
const LINGER: Duration = Duration::from_secs(1);

/// The listener of this process; null for none. One that was stopped is never freed: a thread may be checking it.
static CURRENT: AtomicPtr<OnDemandListener> = AtomicPtr::new(std::ptr::null_mut());

/// A bound socket and the thread that serves it at times.
pub(super) struct OnDemandListener {
    /// The process that has it; a forked child leaves it alone.
    process: u32,
    address: SocketAddr,
    service: Service,
    /// `None` once it was stopped.
    socket: Spin<Option<Socket>>,
    is_serving: AtomicBool,
    is_kept: AtomicBool,
    /// The time of the next check, of the coarse monotonic clock in nanoseconds.
    next_check: AtomicU64,
    thread: Spin<Option<JoinHandle<()>>>,
}

impl OnDemandListener {
    /// Binds a socket in the program's table and makes this the process's listener; `None` where no high number is
    /// free there.
    pub(super) fn bind(address: SocketAddr, service: Service) -> io::Result<Option<(&'static Self, SocketAddr)>> {
        let (socket, address) = Socket::bind(address)?;
        if !socket.is_high() {
            return Ok(None);
        }
        socket.set_nonblocking()?;
        let listener = Self {
            process: lineage::number(),
            address,
            service,
            socket: Spin::new(None, || None),
            is_serving: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            next_check: AtomicU64::new(0),
            thread: Spin::new(None, || None),
        };
        listener.keep(socket);
        let listener: &'static Self = Box::leak(Box::new(listener));
        CURRENT.store(std::ptr::from_ref(listener).cast_mut(), Ordering::Release);
        Ok(Some((listener, address)))
    }

    /// Keeps a socket that was just bound, also for forked children, which close it.
    fn keep(&self, socket: Socket) {
        *self.shared().place.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket.place());
        *self.socket.lock() = Some(socket);
    }

    fn shared(&self) -> &Shared {
        &self.service.shared
    }

    fn is_stopping(&self) -> bool {
        self.shared().stopping.load(Ordering::SeqCst)
    }

    /// Whether a check is due, which is the caller's then.
    fn is_due(&self) -> bool {
        if self.process != lineage::number() || self.is_serving.load(Ordering::Relaxed) || self.is_stopping() {
            return false;
        }
        let (next, now) = (self.next_check.load(Ordering::Relaxed), now());
        let after = now + CHECK_INTERVAL.as_nanos() as u64;
        now >= next && self.next_check.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether a client waits, or the program has closed the socket.
    fn needs_service(&self) -> bool {
        // Another thread binds it anew.
        let Some(socket) = self.socket.try_lock() else { return false };
        let found = socket.as_ref().map(|socket| socket.place().wait(Some(Duration::ZERO)));
        found.is_some_and(|found| found.unwrap_or_else(|error| is_lost(&error)))
    }

    fn postpone(&self) {
        self.next_check.store(now() + RETRY_INTERVAL.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Starts the thread that serves the socket, unless there is one.
    fn start(&'static self) {
        if self.is_serving.swap(true, Ordering::SeqCst) {
            return;
        }
        let place = self.socket.lock().as_ref().map(Socket::place);
        let thread = place.map(|place| {
            aside::spawn_with("procprof-http", place.number(), move || {
                own_thread::leave_out();
                self.serve_while_needed(place);
                place.leave();
            })
        });
        match thread {
            Some(Ok(thread)) => *self.thread.lock() = Some(thread),
            // There may be memory for a thread later.
            Some(Err(_)) | None => {
                self.postpone();
                self.is_serving.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Serves the socket until no client has come for a while; until it is stopped once the thread is kept.
    fn serve_while_needed(&self, mut place: Place) {
        loop {
            match self.serve(place) {
                ServiceEnd::Stopped => self.shared().end_connections(),
                // Lost before it was copied to this thread's table: the program's threads bind it anew.
                ServiceEnd::Lost if aside::has_own_table() => self.is_kept.store(false, Ordering::SeqCst),
                ServiceEnd::Lost => {
                    if let Some(fresh) = self.wait_for_socket() {
                        place = fresh;
                        continue;
                    }
                }
                ServiceEnd::Idle => {}
            }
            self.is_serving.store(false, Ordering::SeqCst);
            // Checked again: it may have been kept in this moment.
            let goes_on = self.is_kept.load(Ordering::SeqCst) && !self.is_stopping();
            if !goes_on || self.is_serving.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Binds the socket again, as soon as its port is free; `None` when this is stopped.
    fn wait_for_socket(&self) -> Option<Place> {
        while !self.is_stopping() && !self.bind_anew() {
            std::thread::sleep(RETRY_INTERVAL);
        }
        self.socket.lock().as_ref().map(Socket::place)
    }

    fn serve(&self, place: Place) -> ServiceEnd {
        while !self.is_stopping() {
            let is_kept = self.is_kept.load(Ordering::SeqCst);
            let waited = place.wait((!is_kept).then_some(LINGER));
            if self.is_stopping() {
                break;
            }
            match waited {
                Ok(true) => match place.accept() {
                    Ok((stream, client)) => serve(stream, client, &self.service),
                    Err(error) if is_lost(&error) => return ServiceEnd::Lost,
                    // A client that has left, or no descriptors for now.
                    Err(_) => std::thread::sleep(PAUSE),
                },
                Ok(false) if is_kept || self.shared().has_connections() => {}
                Ok(false) => return ServiceEnd::Idle,
                Err(error) if is_lost(&error) => return ServiceEnd::Lost,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        ServiceEnd::Stopped
    }

    /// Binds the socket again at its address, where the program has closed it; false while the port is another's.
    fn bind_anew(&self) -> bool {
        let mut socket = self.socket.lock();
        if socket.as_ref().is_some_and(|socket| socket.place().is_same()) {
            return true;
        }
        // Not the number: it is another file's, or none.
        *socket = None;
        drop(socket);
        let bound = Socket::bind(self.address).and_then(|(socket, _)| socket.set_nonblocking().map(|()| socket));
        let is_bound = bound.is_ok();
        if let Ok(socket) = bound {
            self.keep(socket);
        }
        is_bound
    }

    /// Takes it from the process; the thread that serves it, if there is one, ends when it is woken.
    pub(super) fn end(&self) -> Option<JoinHandle<()>> {
        let own = std::ptr::from_ref(self).cast_mut();
        let _ = CURRENT.compare_exchange(own, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire);
        let thread = self.thread.lock().take();
        thread.filter(|_| self.is_serving.load(Ordering::SeqCst))
    }

    /// Closes the socket in the program's table.
    pub(super) fn close(&self) {
        *self.socket.lock() = None;
    }
}

impl std::fmt::Debug for OnDemandListener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OnDemandListener").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The reason why a socket is no longer served.
enum ServiceEnd {
    Stopped,
    Idle,
    Lost,
}

fn current() -> Option<&'static OnDemandListener> {
    // SAFETY: null, or leaked in `bind`.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Whether a client waits for the listener without a thread: checked at most every [`CHECK_INTERVAL`], in between and
/// without such a listener a few loads and a clock. Leaves `errno` as it is, and is no point of cancellation.
#[inline]
pub(super) fn has_client() -> bool {
    current().is_some_and(OnDemandListener::is_due) && is_needed()
}

#[cold]
fn is_needed() -> bool {
    // SAFETY: the calling thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    let needs_service = current().is_some_and(OnDemandListener::needs_service);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    needs_service
}

/// Starts the thread that answers the client, after [`has_client`].
pub(super) fn answer_client() {
    let Some(listener) = current() else { return };
    if listener.bind_anew() {
        listener.start();
    } else {
        listener.postpone();
    }
}

/// Whether [`keep_thread`] would start a thread.
#[inline]
pub(super) fn can_keep_thread() -> bool {
    current().is_some_and(|listener| !listener.is_kept.load(Ordering::Relaxed) && listener.process == lineage::number())
}

/// Has the listener keep a thread from now on.
pub(super) fn keep_thread() {
    if let Some(listener) =
        current().filter(|listener| listener.process == lineage::number() && !listener.is_stopping())
        && !listener.is_kept.swap(true, Ordering::SeqCst)
        && listener.bind_anew()
    {
        listener.start();
    }
}

/// The time of the coarse monotonic clock, nanoseconds.
fn now() -> u64 {
    crate::clock::read(libc::CLOCK_MONOTONIC_COARSE).unwrap_or_default()
}
