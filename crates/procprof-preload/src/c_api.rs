//! The functions for programs, as declared in `include/procprof.h`.
//!
//! The names carry a version: a program that was built with another header must not meet functions of another meaning.
//! Functions return 0, or -1 and leave the reason to [`error`]. None of them unwinds into the program.

use crate::settings::Settings;
use crate::start::{self as agent};
use crate::stderr::print;
use procprof_agent::{Label, Request, label};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;

thread_local! {
    static LABELS: RefCell<Vec<Label>> = const { RefCell::new(Vec::new()) };
    static WHY: RefCell<CString> = RefCell::new(CString::default());
}

/// Starts the agent, listening at `listen`; null is the environment's `PROCPROF_LISTEN`, an empty text no listener.
///
/// # Safety
/// `listen` is null or ends with a zero byte.
#[unsafe(export_name = "procprof_v1_start")]
unsafe extern "C" fn start(listen: *const c_char) -> c_int {
    let (settings, bad) = Settings::of_environment();
    bad.iter().for_each(|line| print(line));
    // SAFETY: by the caller's promise.
    let address = match unsafe { text(listen) } {
        None => Ok(settings.listen),
        Some("") => Ok(None),
        Some(address) => address.parse().map(Some).map_err(|_| format!("{address}: expected ADDRESS:PORT")),
    };
    code(address.and_then(|address| agent::begin(&settings, address)).map(|_| ()))
}

/// Ends the agent and its listener; captures that are being made end early.
#[unsafe(export_name = "procprof_v1_stop")]
extern "C" fn stop() {
    agent::end();
}

/// The port it listens on; 0 when it does not.
#[unsafe(export_name = "procprof_v1_port")]
extern "C" fn port() -> c_int {
    let running = agent::running();
    let listener = running.as_ref().and_then(|running| running.listener.as_ref());
    listener.map_or(0, |listener| listener.address().port().into())
}

/// Writes what an endpoint answers, such as `/debug/pprof/heap` or `/debug/pprof/profile?seconds=10`, to a file.
///
/// # Safety
/// Both end with a zero byte.
#[unsafe(export_name = "procprof_v1_dump")]
unsafe extern "C" fn dump(endpoint: *const c_char, file: *const c_char) -> c_int {
    // SAFETY: by the caller's promise.
    let (endpoint, file) = unsafe { (text(endpoint), text(file)) };
    let (Some(endpoint), Some(file)) = (endpoint, file) else {
        return code(Err("expected an endpoint and a file".to_owned()));
    };
    code(write(endpoint, Path::new(file)))
}

fn write(endpoint: &str, file: &Path) -> Result<(), String> {
    let (agent, token) = {
        let running = agent::running();
        let running = running.as_ref().ok_or("not started")?;
        (running.agent.clone(), running.token.clone())
    };
    let authorization = token.map(|token| format!("Bearer {token}"));
    let request = Request { authorization: authorization.as_deref(), client: "this program", ..Request::get(endpoint) };
    let response = agent.handle(&request);
    if response.status != 200 {
        return Err(format!("{endpoint}: {}", String::from_utf8_lossy(&response.body).trim_end()));
    }
    std::fs::write(file, response.body).map_err(|error| format!("{}: {error}", file.display()))
}

/// Labels the calling thread's samples until the matching [`label_pop`].
///
/// # Safety
/// Both end with a zero byte.
#[unsafe(export_name = "procprof_v1_label_push")]
unsafe extern "C" fn label_push(key: *const c_char, value: *const c_char) {
    // SAFETY: by the caller's promise.
    let (key, value) = unsafe { (text(key), text(value)) };
    // A label that can't be read is an empty one, so that pops match.
    let label = label(key.unwrap_or_default(), value.unwrap_or_default());
    // In a thread that is ending there are no labels any more.
    let _ = LABELS.try_with(|labels| labels.borrow_mut().push(label));
}

/// Ends the calling thread's last label.
#[unsafe(export_name = "procprof_v1_label_pop")]
extern "C" fn label_pop() {
    let _ = LABELS.try_with(|labels| labels.borrow_mut().pop());
}

/// Why the calling thread's last call failed; valid until its next one.
#[unsafe(export_name = "procprof_v1_error")]
extern "C" fn error() -> *const c_char {
    WHY.try_with(|why| why.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// # Safety
/// `pointer` is null or ends with a zero byte.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    // SAFETY: by the caller's promise.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or_default())
}

fn code(result: Result<(), String>) -> c_int {
    let Err(why) = result else { return 0 };
    let why = CString::new(why).unwrap_or_default();
    let _ = WHY.try_with(|last| last.replace(why));
    -1
}
