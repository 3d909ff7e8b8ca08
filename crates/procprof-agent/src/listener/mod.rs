//! A small HTTP/1.1 listener for processes that have no server of their own.
//!
//! One request per connection. Bounded everywhere: 16 connections (more are answered 503), 16 KiB of head, 8 MiB of
//! body, 10 s to send a request, 30 s of a client not reading. On loopback a browser is kept from being used against
//! it: a `Host` that is no loopback name and an `Origin` of another site are refused. Other addresses need the agent's
//! token.

mod exchange;
mod head;
#[cfg(target_os = "linux")]
mod on_demand;
mod socket;

use crate::agent::Agent;
use crate::aside;
use crate::error::{Error, Result};
use crate::own_thread;
use crate::request::{Request, Response};
use socket::{Place, Socket};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections served at once.
pub const MAX_CONNECTIONS: usize = 16;

/// How long [`Listener::stop`] waits for answers that are being made.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Answers what the agent does not; `None` leaves the request to the agent.
pub type ExtraHandler = Arc<dyn Fn(&Request<'_>) -> Option<Response> + Send + Sync>;

/// A running listener; dropping it stops it.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    agent: Agent,
    shared: Arc<Shared>,
    /// `None` once it has ended.
    server: Option<Server>,
}

/// The part of a listener that accepts connections.
#[derive(Debug)]
enum Server {
    Thread(JoinHandle<()>),
    #[cfg(target_os = "linux")]
    OnDemand(&'static on_demand::OnDemandListener),
}

/// Pause after an error of a socket.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Shared {
    stopping: AtomicBool,
    /// Requests that have arrived and are not answered yet.
    answering: AtomicUsize,
    turn: Mutex<()>,
    /// The socket's place, for a forked child.
    place: Mutex<Option<Place>>,
    answered: Condvar,
    /// Descriptors of open connections, in the table of the thread that accepts them.
    connections: Mutex<Vec<RawFd>>,
}

impl Shared {
    #[cfg(target_os = "linux")]
    fn has_connections(&self) -> bool {
        !self.connections.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Waits, for at most [`STOP_WAIT`], for answers that are being made.
    fn wait_for_answers(&self) {
        let answering = |_: &mut ()| self.answering.load(Ordering::SeqCst) > 0;
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.answered.wait_timeout_while(turn, STOP_WAIT, answering));
    }

    /// Waits for answers that are being made, and ends all connections, so that the threads that serve them end.
    fn end_connections(&self) {
        self.wait_for_answers();
        for connection in self.connections.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // SAFETY: takes a number; where its thread has just closed it, it is another connection's or none.
            unsafe { libc::shutdown(*connection, libc::SHUT_RDWR) };
        }
    }
}

/// The state shared by all connections.
#[derive(Clone)]
struct Service {
    agent: Agent,
    extra: Option<ExtraHandler>,
    loopback: bool,
    shared: Arc<Shared>,
}

impl Service {
    fn new(address: SocketAddr, agent: Agent, extra: Option<ExtraHandler>) -> Result<Self> {
        let loopback = address.ip().is_loopback();
        if !loopback && !agent.has_token() {
            return Err(Error::Config { what: format!("bind {address}: an address beyond loopback needs a token") });
        }
        Ok(Self { agent, extra, loopback, shared: Arc::default() })
    }
}

fn bind_error(source: io::Error) -> Error {
    Error::System { what: "bind the listener", source }
}

impl Listener {
    /// Binds and serves from threads of its own; port 0 takes a free one.
    ///
    /// # Errors
    /// [`Error::Config`] for an address beyond loopback when the agent has no token; [`Error::System`] when it can't be
    /// bound.
    pub fn bind(address: SocketAddr, agent: Agent, extra: Option<ExtraHandler>) -> Result<Self> {
        let service = Service::new(address, agent.clone(), extra)?;
        let shared = service.shared.clone();
        let (bound, binding) = sync_channel(1);
        let thread = aside::spawn("procprof-http", move || match Socket::bind(address) {
            Ok((socket, address)) => {
                // The receiver waits in `bind`.
                let _ = bound.send(Ok(address));
                accept(socket, address, &service);
            }
            Err(error) => drop(bound.send(Err(error))),
        });
        let thread = thread.map_err(|source| Error::System { what: "start the listener's thread", source })?;
        let address = binding.recv().unwrap_or(Err(std::io::ErrorKind::Other.into())).map_err(bind_error)?;
        Ok(Self { address, agent, shared, server: Some(Server::Thread(thread)) })
    }

    /// Binds without a thread, for a process with one thread, which is slower once there was a second one: threads of
    /// the program call [`Listener::has_client`] now and then, and [`Listener::answer_client`] where there is one. A
    /// client waits until then.
    ///
    /// The thread that answers ends a second after the last request. Where the program's table of descriptors has no
    /// free number from 960 up, this is [`Listener::bind`]. One listener of a process is bound so; a former one must
    /// have been stopped.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    #[cfg(target_os = "linux")]
    pub fn bind_on_demand(address: SocketAddr, agent: Agent) -> Result<Self> {
        let service = Service::new(address, agent.clone(), None)?;
        let shared = service.shared.clone();
        match on_demand::OnDemandListener::bind(address, service).map_err(bind_error)? {
            Some((server, address)) => Ok(Self { address, agent, shared, server: Some(Server::OnDemand(server)) }),
            None => Self::bind(address, agent, None),
        }
    }

    /// Whether a client waits for a listener of [`Listener::bind_on_demand`], or its socket was closed by the program.
    /// Checked at most every 100 ms; in between, and without such a listener, it is a few loads and a coarse clock.
    /// Leaves `errno` as it is, makes two system calls that are no points of cancellation, and takes no lock.
    #[cfg(target_os = "linux")]
    #[inline]
    pub fn has_client() -> bool {
        on_demand::has_client()
    }

    /// Starts the thread that answers the client. Not for signal handlers; `errno` is not kept.
    #[cfg(target_os = "linux")]
    pub fn answer_client() {
        on_demand::answer_client();
    }

    /// Whether [`Listener::keep_thread`] would have an effect.
    #[cfg(target_os = "linux")]
    #[inline]
    pub fn can_keep_thread() -> bool {
        on_demand::can_keep_thread()
    }

    /// Has a listener of [`Listener::bind_on_demand`] keep a thread from now on: the program has several itself. As
    /// [`Listener::answer_client`].
    #[cfg(target_os = "linux")]
    pub fn keep_thread() {
        on_demand::keep_thread();
    }

    /// Closes the socket in a forked child where that has it, but not the threads that serve it; else the port would be
    /// taken as long as the child lives. To be called in the child only, by a handler of `pthread_atfork`; it does
    /// nothing else.
    pub fn close_in_child(&self) {
        // The thread of the parent that held the lock, if any, was just binding anew.
        if let Ok(place) = self.shared.place.try_lock() {
            place.inspect(Place::close);
        }
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the agent, takes no more connections, waits up to 5 s for answers that are being made, and ends the
    /// connections.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(server) = self.server.take() else { return };
        self.agent.stop();
        self.shared.stopping.store(true, Ordering::SeqCst);
        match server {
            Server::Thread(thread) => self.end_thread(thread),
            #[cfg(target_os = "linux")]
            Server::OnDemand(server) => {
                if let Some(thread) = server.end() {
                    self.end_thread(thread);
                }
                server.close();
            }
        }
    }

    fn end_thread(&self, thread: JoinHandle<()>) {
        // A connection of our own wakes the thread out of accept; where it can't be made, the next client's does.
        let connect = || TcpStream::connect_timeout(&reachable(self.address), Duration::from_secs(1)).is_ok();
        if aside::run(STOP_WAIT, || (), connect).unwrap_or(false) {
            // A panic of that thread has been reported on standard error already.
            let _ = thread.join();
        } else {
            self.shared.wait_for_answers();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.end();
    }
}

/// The address at which this process reaches itself.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    address
}

/// Serves until stopped. Where the program has closed the socket, as daemons close all descriptors of a table that they
/// share with it, it is bound anew.
fn accept(mut socket: Socket, address: SocketAddr, service: &Service) {
    own_thread::leave_out();
    loop {
        *service.shared.place.lock().unwrap_or_else(PoisonError::into_inner) = socket.place_for_children();
        let accepted = socket.accept();
        if service.shared.stopping.load(Ordering::SeqCst) {
            return service.shared.end_connections();
        }
        match accepted {
            Ok((stream, client)) => serve(stream, client, service),
            Err(error) if socket::is_lost(&error) => match Socket::bind(address) {
                Ok((fresh, _)) => socket = fresh,
                // The port is another's for now.
                Err(_) => std::thread::sleep(20 * PAUSE),
            },
            // Out of descriptors, or a client that left: the next one may fare better.
            Err(error) if error.kind() != io::ErrorKind::Interrupted => std::thread::sleep(PAUSE),
            Err(_) => {}
        }
    }
}

fn serve(stream: TcpStream, client: SocketAddr, service: &Service) {
    let open = Open::enter(&service.shared, stream.as_raw_fd());
    if open.number > MAX_CONNECTIONS {
        return exchange::refuse(stream, format!("{MAX_CONNECTIONS} connections are open already"));
    }
    let service = service.clone();
    let waiting = Arc::new(Mutex::new(Some(stream)));
    let taken = Arc::clone(&waiting);
    let take = |place: &Mutex<Option<TcpStream>>| place.lock().unwrap_or_else(PoisonError::into_inner).take();
    let started = aside::spawn_beside("procprof-http", move || {
        let _open = open;
        if let Some(stream) = take(&taken) {
            // What the program's own handler allocates is the program's.
            if service.extra.is_none() {
                own_thread::leave_out();
            }
            exchange::run(stream, &client.to_string(), &service);
        }
    });
    if let Err(error) = started
        && let Some(stream) = take(&waiting)
    {
        exchange::refuse(stream, format!("start a thread for the answer: {error}"));
    }
}

/// A connection, counted out when dropped, also when its thread panics.
struct Open {
    shared: Arc<Shared>,
    descriptor: RawFd,
    /// The number of connections that are open with this one.
    number: usize,
}

impl Open {
    fn enter(shared: &Arc<Shared>, descriptor: RawFd) -> Self {
        let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.push(descriptor);
        Self { shared: shared.clone(), descriptor, number: connections.len() }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut connections = self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = connections.iter().position(|descriptor| *descriptor == self.descriptor) {
            connections.swap_remove(place);
        }
    }
}

/// An answer being made; [`Listener::stop`] waits for it.
struct Answering<'a>(&'a Shared);

impl<'a> Answering<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.answering.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let _turn = self.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.answering.fetch_sub(1, Ordering::SeqCst);
        self.0.answered.notify_all();
    }
}
