//! Machine code as text, against `objdump` on a real C++ program and `llvm-objdump` on AArch64.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::LazyLock;

use procprof_report::code::{Architecture, Syntax, disassemble};

use crate::samples;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Address, bytes and text of each line of a listing.
fn instructions(listing: &str) -> Vec<(u64, Vec<u8>, String)> {
    let line = |line: &str| {
        let (address, rest) = line.split_once(":\t").or_else(|| line.split_once(": "))?;
        let (bytes, text) = rest.trim_start().split_once('\t')?;
        let bytes = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<_, _>>().ok()?;
        Some((u64::from_str_radix(address.trim(), 16).ok()?, bytes, text.to_owned()))
    };
    listing.lines().filter_map(line).collect()
}

/// Without names of what is jumped to, which are compared apart, and blanks at the end.
fn bare(text: &str) -> String {
    static NAME: LazyLock<regex::Regex> = LazyLock::new(|| regex::Regex::new(r" *<[^<>]*>").unwrap());
    NAME.replace_all(text, "").trim_end().to_owned()
}

fn single(architecture: Architecture, address: u64, bytes: &[u8]) -> String {
    let found = disassemble(architecture, address, bytes, Syntax::Att, &BTreeMap::new());
    found.iter().map(|instruction| instruction.text.as_str()).collect::<Vec<_>>().join("; ")
}

#[test]
fn x86_reads_as_in_objdump() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("main.o").display().to_string();
    let source = samples::folder().join("cpp/main.cpp").display().to_string();
    run("g++", &["-O2", "-mavx2", "-std=c++20", "-c", "-o", &object, &source]);
    let expected = instructions(&run("objdump", &["-d", "-w", &object]));
    assert!(expected.len() > 1000, "{} instructions", expected.len());
    let mut differing: Vec<String> = Vec::new();
    for (address, bytes, text) in &expected {
        let got = single(Architecture::X86_64, *address, bytes);
        if bare(&got) != bare(text) {
            differing.push(format!("{got} | {text}"));
        }
    }
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), expected.len(), differing.join("\n"));
}

/// The most frequent instructions of C compilers.
const ARM: &str = "
f: stp x29, x30, [sp, #-32]!
mov x29, sp
ldr w0, [x1, #8]
str x2, [x3, x4, lsl #3]
add x0, x0, #16
sub sp, sp, #64
cmp w0, #3
b.ne f
cbz x0, f
bl f
adrp x0, 4096
ldrb w5, [x6], #1
madd x0, x1, x2, x3
lsr w1, w2, #4
fadd d0, d1, d2
ldp x29, x30, [sp], #32
ret
nop
";

#[test]
fn arm_reads_as_in_llvm() {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("f.s"), folder.path().join("f.o").display().to_string());
    std::fs::write(&source, ARM).unwrap();
    run("llvm-mc", &["-triple=aarch64", "-filetype=obj", "-o", &object, &source.display().to_string()]);
    let listing = run("llvm-objdump", &["-d", &object]);
    let expected = instructions(&listing);
    assert!(expected.len() >= 17, "{listing}");
    // Numbers in hexadecimal or not, and the addresses of branches with or without 0x, are a matter of taste.
    let number = regex::Regex::new(r"(#?)(0x[0-9a-f]+|\b\d+\b)").unwrap();
    let plain = |text: &str| {
        if ["b", "bl", "b.ne", "cbz", "adrp"].contains(&text.split_whitespace().next().unwrap_or_default()) {
            return bare(text).replace(['\t', ' ', '#'], "").replace("0x", "");
        }
        let value = |found: &regex::Captures<'_>| match found[2].strip_prefix("0x") {
            Some(digits) => format!("#{}", u64::from_str_radix(digits, 16).unwrap()),
            None => format!("#{}", &found[2]),
        };
        number.replace_all(&bare(text).replace(['\t', ' '], ""), value).into_owned()
    };
    for (address, bytes, text) in &expected {
        let got = single(Architecture::Aarch64, *address, bytes);
        assert_eq!(plain(&got), plain(text), "{got} | {text}");
    }
}

#[test]
fn what_is_jumped_to_has_its_name() {
    let targets = BTreeMap::from([(0x1000, "work".to_owned()), (0x2000, "rest".to_owned())]);
    let texts = |bytes: &[u8], syntax| -> Vec<String> {
        disassemble(Architecture::X86_64, 0x1000, bytes, syntax, &targets).into_iter().map(|found| found.text).collect()
    };
    let bytes = [0xe8, 0xfb, 0x0f, 0, 0, 0xeb, 0x09, 0x48, 0x8d, 0x05, 1, 0, 0, 0, 0x06];
    assert_eq!(
        texts(&bytes, Syntax::Att),
        ["call   2000 <rest>", "jmp    1010 <work+0x10>", "lea    0x1(%rip),%rax        # 100f <work+0xf>", "(bad)"]
    );
    assert_eq!(texts(&bytes[7..14], Syntax::Intel), ["lea    rax,[rip+0x1]        # 1008 <work+0x8>"]);
}
