//! The index page.

use super::table::ENDPOINTS;
use crate::meta::TOOL;
use crate::request::{Method, Response};
use std::fmt::Write;

/// All endpoints as a table; those that are read are links, relative to the requested path, so that they work under any
/// prefix.
pub(super) fn page(path: &str) -> Response {
    let root = if path.ends_with('/') { "../.." } else { ".." };
    let mut rows = String::new();
    for endpoint in ENDPOINTS {
        let (path, help) = (endpoint.path, endpoint.help);
        let methods: Vec<&str> = endpoint.methods.iter().map(|method| method.name()).collect();
        let link = if endpoint.methods.contains(&Method::Get) {
            format!("<a href=\"{root}{path}\">{path}</a>")
        } else {
            path.to_owned()
        };
        // Writing to a string can't fail.
        let _ = writeln!(rows, "<tr><td>{link}</td><td>{}</td><td>{help}</td></tr>", methods.join(" "));
    }
    let (pid, program) = (std::process::id(), program());
    let body = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Profiles of {program}</title>\n\
         <style>body{{font:15px/1.5 system-ui,sans-serif;margin:2rem}}td{{padding:.2rem 1rem .2rem 0;vertical-align:top}}</style></head>\n\
         <body><h1>Profiles of {program}</h1><p>Process {pid}, {TOOL}.</p>\n<table>\n{rows}</table></body></html>\n"
    );
    Response::ok("text/html; charset=utf-8", body.into_bytes())
}

/// The program's file name, safe in HTML.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
