//! The name of the program that a process runs: of an interpreter the script, of a JVM the main class.

/// How an interpreter's arguments are read.
struct Interpreter {
    /// The name of its file, without a version.
    name: &'static str,
    /// Options whose value is the next argument.
    with_value: &'static [&'static str],
    /// Options behind which the program's name comes.
    before_program: &'static [&'static str],
    /// Options with the program itself, which then has no name.
    inline: &'static [&'static str],
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter { name: "python", with_value: &["-W", "-X", "-Q"], before_program: &["-m"], inline: &["-c"] },
    Interpreter { name: "pypy", with_value: &["-W", "-X"], before_program: &["-m"], inline: &["-c"] },
    Interpreter { name: "perl", with_value: &[], before_program: &[], inline: &["-e", "-E"] },
    Interpreter { name: "ruby", with_value: &["-r", "-I", "-C", "-E"], before_program: &["-S"], inline: &["-e"] },
    Interpreter { name: "php", with_value: &["-c", "-d", "-z"], before_program: &["-f"], inline: &["-r"] },
    Interpreter {
        name: "node",
        with_value: &["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--env-file"],
        before_program: &[],
        inline: &["-e", "--eval", "-p", "--print"],
    },
    Interpreter {
        name: "bash",
        with_value: &["-o", "-O", "--rcfile", "--init-file"],
        before_program: &[],
        inline: &["-c"],
    },
    Interpreter { name: "dash", with_value: &["-o"], before_program: &[], inline: &["-c"] },
    Interpreter { name: "sh", with_value: &["-o"], before_program: &[], inline: &["-c"] },
    Interpreter {
        name: "java",
        with_value: &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--upgrade-module-path",
            "--add-modules",
            "--add-opens",
            "--add-exports",
            "--add-reads",
            "--patch-module",
            "--limit-modules",
            "--source",
        ],
        before_program: &["-jar", "-m", "--module"],
        inline: &[],
    },
];

/// Longest name.
const NAME_BYTES_MAX: usize = 128;
/// The kernel keeps so many bytes of a process's name.
const KERNEL_NAME_BYTES: usize = 15;

/// The name of the program of a process with that name and these arguments.
///
/// It is the process's name, whole where the kernel has cut it; for an interpreter, the file name of the script, the
/// module, or the main class.
pub fn program_name(name: &str, arguments: &[String]) -> String {
    let Some((first, rest)) = arguments.split_first() else { return name.to_owned() };
    // Login shells have a minus, and processes may write what they do behind the name.
    let file = first.rsplit('/').next().unwrap_or(first).trim_start_matches('-');
    let by_arguments = INTERPRETERS.iter().find(|interpreter| interpreter.is(file));
    let script = by_arguments.and_then(|interpreter| interpreter.program(rest));
    // Files without a name of their own, such as those that a shell substitutes.
    let script = script.filter(|script| !script.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(script) = script {
        return shortened(script);
    }
    let is_whole = name.len() >= KERNEL_NAME_BYTES && file.starts_with(name) && !file.contains(char::is_whitespace);
    shortened(if is_whole { file } else { name })
}

impl Interpreter {
    fn is(&self, file: &str) -> bool {
        let version = file.strip_prefix(self.name);
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    }

    /// The program among the arguments; `None` if there is none, or it has no name.
    fn program<'a>(&self, arguments: &'a [String]) -> Option<&'a str> {
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if self.before_program.contains(&&**argument) {
                return arguments.next().map(|program| self.named(program));
            }
            if self.inline.contains(&&**argument) || argument == "-" {
                return None;
            }
            if self.with_value.contains(&&**argument) {
                arguments.next();
            } else if argument == "--" {
                return arguments.next().map(|program| self.named(program));
            } else if !argument.starts_with(['-', '@']) {
                return Some(self.named(argument));
            }
        }
        None
    }

    fn named<'a>(&self, program: &'a str) -> &'a str {
        // `MODULE/CLASS` of a JVM, and paths.
        program.rsplit('/').next().unwrap_or(program)
    }
}

fn shortened(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(NAME_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_main_classes_name_what_interpreters_run() {
        for (name, arguments, expected) in [
            ("mysqld", "/usr/sbin/mysqld --user mysql", "mysqld"),
            ("python3", "python3 /srv/app.py --port 1", "app.py"),
            ("python3.12", "/usr/bin/python3.12 -X perf -u app.py", "app.py"),
            ("python3", "python3 -m http.server 80", "http.server"),
            ("python3", "python3 -c while%20True:pass", "python3"),
            ("python3", "python3", "python3"),
            ("python3-config", "python3-config x", "python3-config"),
            ("gunicorn", "/usr/bin/python3 /usr/bin/gunicorn web:app", "gunicorn"),
            ("node", "node --max-old-space-size=4096 -r dotenv/config /srv/server.js", "server.js"),
            ("node", "node -e 1", "node"),
            (
                "java",
                "java -Xmx2g -cp /a.jar:/b.jar org.apache.kafka.Kafka server.properties",
                "org.apache.kafka.Kafka",
            ),
            ("java", "/opt/jdk/bin/java -javaagent:/x.jar -jar /srv/shop-1.2.jar --a", "shop-1.2.jar"),
            ("java", "java --add-opens java.base/java.lang=ALL-UNNAMED -m app/com.example.Main", "com.example.Main"),
            ("java", "java @options com.example.Main", "com.example.Main"),
            ("sh", "sh -c sleep", "sh"),
            ("bash", "bash /dev/fd/63", "bash"),
            ("backup.sh", "/bin/bash /etc/backup.sh", "backup.sh"),
            ("bash", "-bash", "bash"),
            ("perl", "perl -w /usr/bin/exim", "exim"),
            ("ruby", "ruby3.1 -S puma", "puma"),
            ("postgres", "postgres: walwriter ", "postgres"),
            ("systemd-journal", "/lib/systemd/systemd-journald", "systemd-journald"),
            ("a_rather_long_n", "/bin/another_program", "a_rather_long_n"),
            ("kworker/0:1", "", "kworker/0:1"),
        ] {
            let arguments: Vec<String> = arguments
                .split(' ')
                .filter(|argument| !argument.is_empty())
                .map(|text| text.replace("%20", " "))
                .collect();
            assert_eq!(program_name(name, &arguments), expected, "{arguments:?}");
        }
    }
}
