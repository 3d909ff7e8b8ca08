//! The root's side of a capture of the tree: the order, and the sum of what all have seen.

use super::page::{self, Page, SECRET_BYTES};
use super::processes::{self, Processes};
use crate::cpu::UNSAMPLED;
use crate::error::{Error, Result};
use crate::options::CpuEngine;
use procprof_profile::format::{Limits, decode};
use procprof_profile::merge::merge;
use procprof_profile::{Grammar, Meta, Profile, ProfileBuilder, ProfileType};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Members of which profiles are taken, and bytes of one and of all; further ones are counted as unsampled.
const MAX_MEMBERS: usize = 1024;
const MAX_BYTES: usize = 32 << 20;
const MAX_ALL_BYTES: usize = 128 << 20;

/// Takes the place of a thread's name for processes that ended during the order.
const ENDED: &str = "(ended processes)";

/// How long the members have, after the order's end, to assemble their profiles and send them.
const PATIENCE: Duration = Duration::from_secs(15);

/// Writes to the page are one thread's at a time; a fork has no order to write before it is a root, and then a lock
/// that was held is the parent's.
static WRITING: Mutex<()> = Mutex::new(());

/// An order that is in force until it is dropped.
#[derive(Debug)]
pub(crate) struct Order {
    page: &'static Page,
    number: u64,
    position: usize,
    listener: UnixListener,
    before: Processes,
}

/// A member's message.
struct Sent {
    pid: i32,
    profile: Profile,
}

impl Order {
    /// Orders all forks of this process to be sampled for `length`; `None` where it is not the root of any, or has no
    /// room for a further order.
    ///
    /// # Errors
    /// [`Error::System`] where the socket for the members' profiles can't be opened.
    pub(crate) fn give(hz: u32, engine: CpuEngine, length: Duration) -> Result<Option<Self>> {
        let Some(page) = Page::of_this_process().filter(|page| page.root() == page::own_pid()) else { return Ok(None) };
        let before = Processes::below(page::own_pid());
        let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let listen = |number| {
            let listener = UnixListener::bind_addr(&page.address(number)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener =
            listen(page.next()).map_err(|source| Error::System { what: "listen to forked processes", source })?;
        let until = page::now() + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Ok(page.write(until, hz, engine).map(|(number, position)| Self { page, number, position, listener, before }))
    }

    /// The sum of the root's own profile and its members', with a label `pid` at each sample; the root's own where
    /// there is no other process.
    pub(crate) fn collect(self, own: Profile) -> Result<Profile> {
        self.page.erase(self.position, self.number);
        let after = Processes::below(page::own_pid());
        let sent = self.receive();
        let used = Used { running: after.used_since(&self.before), ended: after.used_by_ended_since(&self.before) };
        if sent.is_empty() && after.running.is_empty() && used.ended == 0 {
            return Ok(own);
        }
        let own = own.adjusted(Grammar::Pprof)?;
        let (time, duration) = (own.parts().time, own.parts().duration);
        let meta = Meta::from_comments(own.comments());
        let members = sent.len() as u64;
        let ended = sent.iter().filter(|sent| !after.running.contains_key(&sent.pid)).count() as u64;
        let rest = unsampled(&meta, own.parts().period, &used, &after, &sent)?;
        let mut all = vec![with_pid(own, page::own_pid())?];
        for Sent { pid, profile } in sent {
            all.push(with_pid(profile, pid)?);
        }
        all.extend(rest);
        let sum = merge(&all.iter().collect::<Vec<_>>())?;
        let mut parts = sum.into_parts();
        (parts.time, parts.duration) = (time, duration);
        let counted = [("processes", 1 + after.running.len() as u64 + ended), ("processes-sampled", 1 + members)];
        let more = counted.map(|(key, value)| (key.to_owned(), value.to_string())).into();
        crate::meta::add(parts.finish()?, &Meta { more, ..Meta::default() })
    }

    /// The messages of the members that have connected.
    fn receive(&self) -> Vec<Sent> {
        let (deadline, secret) = (Instant::now() + PATIENCE, self.page.secret());
        let (mut sent, mut room) = (Vec::new(), MAX_ALL_BYTES);
        // All that sample connected at their start: a member that has not connected by now has nothing to send.
        while let Ok((stream, _)) = self.listener.accept() {
            if sent.len() == MAX_MEMBERS {
                break;
            }
            let Ok((pid, bytes)) = receive(stream, &secret, deadline, room.min(MAX_BYTES)) else { continue };
            room -= bytes.len();
            if let Ok(decoded) = decode(&bytes, &Limits::default()) {
                sent.push(Sent { pid, profile: decoded.profile });
            }
        }
        sent
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        self.page.erase(self.position, self.number);
    }
}

/// One member's message: whose, and the profile.
fn receive(
    mut stream: UnixStream,
    secret: &[u8; SECRET_BYTES],
    deadline: Instant,
    room: usize,
) -> std::io::Result<(i32, Vec<u8>)> {
    let refused = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    stream.set_nonblocking(false)?;
    let mut read = |bytes: &mut [u8]| -> std::io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut bytes[at..]) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => at += length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    let mut head = [0; SECRET_BYTES + 12];
    read(&mut head)?;
    let (shown, rest) = head.split_at(SECRET_BYTES);
    let (pid, length) = rest.split_at(4);
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let length = usize::try_from(number(length)).unwrap_or(usize::MAX);
    if shown != secret || length > room || length == 0 {
        return Err(refused());
    }
    let mut bytes = vec![0; length];
    read(&mut bytes)?;
    Ok((i32::try_from(number(pid)).map_err(|_| refused())?, bytes))
}

/// Labels each sample of a profile with its process.
fn with_pid(profile: Profile, pid: i32) -> Result<Profile> {
    let mut parts = profile.into_parts();
    let samples = parts.stack_ends.len();
    let (labels, mut ends) = (std::mem::take(&mut parts.labels), std::mem::take(&mut parts.label_ends));
    ends.resize(samples, labels.len() as u32);
    let (key, unit) = (parts.intern("pid")?, parts.intern("")?);
    let label = procprof_profile::Label { key, value: procprof_profile::LabelValue::Number(pid.into(), unit) };
    let mut start = 0;
    for end in ends {
        parts.labels.extend(&labels[start..end as usize]);
        parts.labels.push(label);
        parts.label_ends.push(parts.labels.len() as u32);
        start = end as usize;
    }
    Ok(parts.finish()?)
}

/// CPU time of other processes during an order, nanoseconds.
struct Used {
    /// Of those that run at its end, by id.
    running: BTreeMap<i32, u64>,
    /// Of all that have ended.
    ended: u64,
}

/// CPU time of other processes that no sample represents, beyond the resolution of the kernel's ticks.
fn unsampled(meta: &Meta, period: i64, used: &Used, after: &Processes, sent: &[Sent]) -> Result<Option<Profile>> {
    let mut builder = ProfileBuilder::new(ProfileType::Cpu.sample_types());
    builder.period("cpu", "nanoseconds", period);
    let frame = builder.frame(UNSAMPLED);
    let seen = |is_counted: &dyn Fn(i32) -> bool| {
        let total: i64 = sent.iter().filter(|sent| is_counted(sent.pid)).map(|sent| sent.profile.total(1)).sum();
        u64::try_from(total).unwrap_or_default()
    };
    let mut all = 0;
    let mut add = |rest: u64, thread: &str, pid: Option<i32>| {
        if rest > 2 * processes::tick() {
            all += rest;
            let mut labels = vec![builder.text_label("thread", thread)];
            labels.extend(pid.map(|pid| builder.number_label("pid", i64::from(pid), "")));
            builder.sample(&[frame], &[0, i64::try_from(rest).unwrap_or(i64::MAX)], &labels);
        }
    };
    for (pid, used) in &used.running {
        let name = after.running.get(pid).map_or("", |process| &process.name);
        add(used.saturating_sub(seen(&|sender| sender == *pid)), name, Some(*pid));
    }
    let seen_of_ended = seen(&|sender| !after.running.contains_key(&sender));
    add(used.ended.saturating_sub(seen_of_ended), ENDED, None);
    if all == 0 {
        return Ok(None);
    }
    // Texts are taken from the root's profile, so that they hold for the sum.
    let more = meta
        .more
        .iter()
        .filter(|(_, value)| value.parse::<u64>().is_err())
        .map(|(key, value)| (key.clone(), value.clone()));
    let meta = Meta { unsampled: Some(all), lost: Some(0), truncated: Some(0), more: more.collect(), ..meta.clone() };
    for comment in meta.to_comments() {
        builder.comment(&comment);
    }
    Ok(Some(builder.finish()?))
}
