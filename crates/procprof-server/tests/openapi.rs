//! The OpenAPI document against a linter and two generators of clients, as `cargo xtask test` fetches them.

use std::path::{Path, PathBuf};
use std::process::Command;

use procprof_server::openapi_document;
use tempfile::TempDir;

/// A program that was fetched for these tests.
fn fetched(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/openapi").join(path);
    assert!(path.exists(), "{} is missing: `cargo xtask test` fetches it", path.display());
    path
}

/// Runs a program that must succeed.
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let output_text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{output_text}", output.status);
}

/// The document as a file.
fn document() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, serde_json::to_vec_pretty(&openapi_document()).unwrap()).unwrap();
    (folder, file)
}

#[test]
fn a_linter_has_nothing_to_say() {
    let (folder, file) = document();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi/redocly.yaml");
    // Its rules make every warning an error.
    run(Command::new(fetched("node/node_modules/.bin/redocly"))
        .current_dir(folder.path())
        .env("REDOCLY_TELEMETRY", "off")
        .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
        .args(["lint", "--format=stylish", "--config"])
        .args([&rules, &file]));
}

#[test]
fn a_typescript_client_compiles() {
    let (folder, file) = document();
    let types = folder.path().join("client.d.ts");
    run(Command::new(fetched("node/node_modules/.bin/openapi-typescript")).arg(&file).arg("-o").arg(&types));
    let used = folder.path().join("used.ts");
    let text = "import type { components, operations } from './client';\n\
                export const asked: components['schemas']['CaptureRequest'] = { node: 'be', type: 'cpu' };\n\
                export type Pushed = operations['pushProfile']['responses'][201]['content']['application/json'];\n\
                export const samples = (pushed: Pushed): number => pushed.samples;\n\
                export const why = (problem: components['schemas']['Problem']): string => problem.detail;\n";
    std::fs::write(&used, text).unwrap();
    run(Command::new(fetched("node/node_modules/.bin/tsc")).args(["--noEmit", "--strict"]).arg(&used));
}

#[test]
fn a_python_client_has_every_operation() {
    let (folder, file) = document();
    let client = folder.path().join("client");
    let programs = fetched("python/bin");
    let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi/python.yaml");
    // It formats what it makes with ruff.
    run(Command::new(programs.join("openapi-python-client"))
        .current_dir(folder.path())
        .env("PATH", &programs)
        .args(["generate", "--meta", "none", "--fail-on-warning", "--path"])
        .arg(&file)
        .arg("--config")
        .arg(&types)
        .arg("--output-path")
        .arg(&client));
    let check = "import client, inspect\n\
                 from client.api.default import push_profile, list_profiles, start_capture\n\
                 from client.models import Profile, CaptureRequest\n\
                 assert CaptureRequest(node='be', type_='cpu').to_dict() == {'node': 'be', 'type': 'cpu'}\n\
                 assert 'limit' in inspect.signature(list_profiles.sync).parameters\n";
    run(Command::new(programs.join("python")).current_dir(folder.path()).args(["-c", check]));
    let modules = std::fs::read_dir(client.join("api/default")).unwrap().count() - 1;
    let document = openapi_document();
    let operations: usize =
        document["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(modules, operations);
}
