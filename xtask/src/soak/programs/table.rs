//! The programs, a row each: shell scripts that run in a folder of the row's own (`$D`), with a free port (`$PORT`).

/// A program to run under the library.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The required programs, with their Debian packages.
    pub(super) tools: &'static [(&'static str, &'static str)],
    /// File name of the program that gets the profiler.
    pub(super) only: &'static str,
    pub(super) prepare: &'static str,
    /// Runs the program in the foreground, by `under`.
    pub(super) run: &'static str,
    /// For servers: succeeds once it can be used.
    pub(super) ready: &'static str,
    /// For servers: a client that fails when it is not served; empty for programs that end by themselves.
    pub(super) load: &'static str,
    /// For servers: exit statuses after SIGTERM that they also have without the library.
    pub(super) ends: &'static [i32],
}

const fn batch(
    name: &'static str,
    only: &'static str,
    tools: &'static [(&'static str, &'static str)],
    prepare: &'static str,
    run: &'static str,
) -> Program {
    Program { name, tools, only, prepare, run, ready: "", load: "", ends: &[] }
}

const AB: (&str, &str) = ("ab", "apache2-utils");

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "redis",
        tools: &[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")],
        only: "redis-server",
        prepare: "",
        run: r#"under redis-server --port $PORT --dir "$D" --save "1 1" --io-threads 2"#,
        ready: "redis-cli -p $PORT ping",
        load: "redis-benchmark -p $PORT -n 50000 -c 20 -q -t set,get,lpush,zadd; redis-cli -p $PORT bgsave",
        ends: &[0],
    },
    Program {
        name: "mariadb",
        tools: &[("mariadbd", "mariadb-server"), ("mariadb-slap", "mariadb-client")],
        only: "mariadbd",
        prepare: r#"mariadb-install-db --no-defaults --user=root --datadir="$D/data" --auth-root-authentication-method=normal"#,
        run: r#"under mariadbd --no-defaults --user=root --datadir="$D/data" --port=$PORT --bind-address=127.0.0.1 --socket="$D/socket""#,
        ready: r#"mariadb --no-defaults -S "$D/socket" -u root -e "SELECT 1""#,
        load: r#"mariadb-slap --no-defaults -S "$D/socket" -u root --auto-generate-sql --concurrency=8 --number-of-queries=2000"#,
        ends: &[0],
    },
    Program {
        name: "nginx",
        tools: &[("nginx", "nginx"), AB],
        only: "nginx",
        prepare: r#"head -c 100000 /dev/urandom > page
cat > nginx.conf <<END
daemon off; worker_processes 2; pid $D/pid; error_log $D/error.log; events {}
http { access_log off; server { listen 127.0.0.1:$PORT; root $D; gzip on; gzip_types application/octet-stream; } }
END
chmod 755 "$D"; chmod o+x "$(dirname "$D")""#,
        run: r#"under nginx -p "$D" -c "$D/nginx.conf""#,
        ready: "curl -fs -o answer http://127.0.0.1:$PORT/page",
        load: "ab -q -n 3000 -c 20 -H 'Accept-Encoding: gzip' http://127.0.0.1:$PORT/page",
        ends: &[0],
    },
    Program {
        name: "postgresql",
        tools: &[("pg_ctlcluster", "postgresql-common"), ("pgbench", "postgresql"), ("setpriv", "util-linux")],
        only: "postgres",
        prepare: r#"chown postgres "$D"; chmod o+x "$(dirname "$D")"; bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres | tail -1)")
setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/initdb" -D "$D/data" -A trust"#,
        run: r#"bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres | tail -1)")
under setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" -D "$D/data" -p $PORT -k "$D" -h 127.0.0.1"#,
        ready: r#"pgbench -q -i -s 1 -h 127.0.0.1 -p $PORT -U postgres postgres"#,
        load: "pgbench -h 127.0.0.1 -p $PORT -U postgres -c 4 -t 100 postgres",
        ends: &[0],
    },
    Program {
        name: "php",
        tools: &[("php", "php-cli"), AB],
        only: "php",
        prepare: r#"echo '<?php set_time_limit(2); $x = 1; for ($i = 0; $i < 300000; $i++) { $x = ($x * 31 + $i) % 65537; } echo "done";' > index.php"#,
        run: r#"under php -n -S 127.0.0.1:$PORT -t "$D""#,
        ready: "curl -fs http://127.0.0.1:$PORT/",
        load: r#"for i in $(seq 40); do [ "$(curl -fs -m 20 http://127.0.0.1:$PORT/)" = done ]; done"#,
        ends: &[0, 143],
    },
    batch(
        "go-with-cgo",
        "busy",
        &[("go", "golang-go"), ("gcc", "gcc")],
        r#"cat > main.go <<'END'
package main

// static unsigned long spin(unsigned long x, int n) { while (n--) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } return x; }
import "C"
import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

func main() {
	end := time.Now().Add(4 * time.Second)
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			x := C.ulong(88172645463325252)
			for time.Now().Before(end) {
				x = C.spin(x, 100000)
				kept := make([][]byte, 100)
				for i := range kept {
					kept[i] = make([]byte, 1000)
				}
				runtime.Gosched()
			}
			fmt.Sprint(x)
		}()
	}
	group.Wait()
}
END
CGO_ENABLED=1 GO111MODULE=off go build -o busy main.go"#,
        "under ./busy",
    ),
    batch(
        "python-tests",
        "python3.11",
        &[("python3.11", "python3.11"), ("x86_64-linux-gnu-gcc", "gcc")],
        r#"[ -f /usr/lib/python3.11/test/test_threading.py ] || { echo "missing: libpython3.11-testsuite"; exit 1; }"#,
        r#"export HOME="$D" TMPDIR="$D"
under /usr/bin/python3.11 -m test test_threading test_signal test_subprocess test_threadsignals test_thread test_time test_select test_fork1"#,
    ),
    batch(
        "python-processes",
        "python3.11",
        &[("python3.11", "python3.11")],
        r#"[ -f /usr/lib/python3.11/test/test_threading.py ] || { echo "missing: libpython3.11-testsuite"; exit 1; }"#,
        r#"export HOME="$D" TMPDIR="$D"
under /usr/bin/python3.11 -m test test_multiprocessing_fork test_asyncio"#,
    ),
    batch(
        "node",
        "node",
        &[("node", "nodejs")],
        r#"cat > busy.js <<'END'
const { Worker, isMainThread } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib');
const end = Date.now() + 3000;
let x = 1;
while (Date.now() < end) {
  for (let i = 0; i < 1e5; i++) x = (x * 31 + i) % 65537;
  zlib.gunzipSync(zlib.gzipSync(crypto.randomBytes(10000)));
}
if (isMainThread) new Worker(__filename).on('exit', code => process.exit(code));
END"#,
        "under node busy.js",
    ),
    batch(
        "jvm",
        "java",
        &[("java", "default-jdk-headless")],
        r#"cat > Busy.java <<'END'
import java.util.*;
class Busy {
  public static void main(String[] a) throws Exception {
    long end = System.currentTimeMillis() + 4000;
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 4; t++) {
      Thread thread = new Thread(() -> {
        Map<Integer, String> map = new HashMap<>();
        for (int i = 0; System.currentTimeMillis() < end; i++) {
          map.put(i % 1000, Integer.toString(i));
          synchronized (Busy.class) { if (i % 1000 == 0) Thread.yield(); }
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) thread.join();
  }
}
END
javac -d . Busy.java"#,
        r#"under "$(readlink -f "$(command -v java)")" -cp . Busy"#,
    ),
    batch(
        "gcc",
        "cc1plus",
        &[("g++", "g++")],
        r#"echo '#include <regex>
#include <map>
#include <iostream>
int main() { std::map<std::string, std::regex> all; std::cout << all.size(); }' > a.cc"#,
        "under g++ -O2 -c a.cc -o a.o",
    ),
    batch(
        "git",
        "git",
        &[("git", "git")],
        r#"git init -q repository; cd repository; git config user.email a@example.com; git config user.name a
for i in $(seq 200); do seq $i 2000 > file$((i % 20)); git add -A; git commit -qm "$i"; done"#,
        "cd repository; under git -c pack.threads=2 repack -adfq --window=200 --depth=50",
    ),
    batch(
        "ffmpeg",
        "ffmpeg",
        &[("ffmpeg", "ffmpeg")],
        "",
        "under ffmpeg -v error -f lavfi -i testsrc=duration=3:size=960x540:rate=30 -c:v libx264 -f null -",
    ),
    batch(
        "luajit",
        "luajit",
        &[("luajit", "luajit")],
        r#"echo 'local t, e = {}, os.clock() + 3; local i = 0; while os.clock() < e do i = i + 1; t[i % 1000] = tostring(i); local s = 0; for j = 1, 1000 do s = s + j * i % 7 end end' > busy.lua"#,
        "under luajit busy.lua",
    ),
    batch(
        "xz",
        "xz",
        &[("xz", "xz-utils")],
        "head -c 30000000 /dev/urandom | od -x | head -c 12000000 > data",
        "under xz -k -f -T 2 -6 data",
    ),
    batch(
        "chromium",
        "chromium",
        &[("chromium", "chromium")],
        "",
        r#"export HOME="$D"; rm -rf "$D/profile" "$D/shot.png"
page='data:text/html,<script>let x=1;const e=Date.now()+1500;while(Date.now()<e)x=x*31%65537;document.write(x)</script>'
( under /usr/lib/chromium/chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --user-data-dir="$D/profile" --screenshot="$D/shot.png" "$page" )
[ -s "$D/shot.png" ]"#,
    ),
    batch(
        "stress-ng",
        "stress-ng",
        &[("stress-ng", "stress-ng")],
        "",
        r#"for stressor in atomic bsearch clone context cpu daemon dentry dirdeep exec fault fork futex \
  get hsearch itimer kill lockbus malloc matrix memcpy mmap mutex nanosleep pipe poll pthread sem sigchld signal sigsegv \
  stack stackmmap switch timer tsc vfork vm zombie; do
  stress-ng --stressors 2>/dev/null | tr ' ' '\n' | grep -qx "$stressor" || continue
  ( under stress-ng --temp-path "$D" --quiet --$stressor 1 --timeout 1 ) || { echo "stressor $stressor failed: $?"; exit 1; }
done"#,
    ),
];
