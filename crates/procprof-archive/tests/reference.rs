//! The reference page `docs/archive.md`, generated from the tables of the schema.

use std::fmt::Write;
use std::path::Path;

use procprof_archive::{Table, VERSION};

const HEAD: &str = "# Profiles as Parquet

The archive has profiles as Parquet files that [other engines](engines.md) read, at a small part of the size of their
pprof files, and sums over any time and any nodes. This page is generated from the tables of the schema; a test keeps
them the same.

`procprof serve` archives each hour (UTC) five minutes after its end, to the folder `archive` in its data folder; the
key `archive` names another one, a [bucket](#buckets), or none. A profile that arrives later is archived with the next
hour; one that retention or a user deletes before is not in the archive. `serve --demo` archives after half a minute to
a minute. Nothing is archived to a folder while less than `data_free_bytes_min` is free. `/metrics` has what was
written, failures and the lag (`procprof_archive…`); the page `/archive` and `/api/archive` have what there is, and the
last error.

The sum of a range (`/merge`) is made of the files in the data folder, if all its profiles are there, and these are at
most 500 of 64 MiB together; otherwise of the archive, and of the files that the archive does not have, each profile
once. `node` may then be given several times. The page and, unless files alone are summed, the header
`Procprof-Coverage` say how many profiles are from where, how many hours have none, and how many files cannot be
read: their profiles are left out, and the page, the log and the warnings of SQL name them. Whole hours of compacted days are summed by their [roll-ups](#compaction). At most 1,048,576 other profiles are
summed, 5,000 of them from files, with 1,048,576 stacks in all.

The command works on archives without a server:

```bash
procprof archive export --data procprof-data archive    # what the archive does not have yet; the server must not run
procprof archive stats archive                          # profiles and bytes by hour
procprof archive verify archive                         # tables against each other
procprof archive verify --data procprof-data archive    # also sums against the pprof files; the server must not run
procprof archive rebuild --data procprof-data archive   # replaces what verify finds wrong; the server must not run
procprof archive compact archive --days-max 90          # merges the hours of closed days, drops what is older
procprof archive load archive mysql://me@db/profiles     # into the tables of a database, see engines.md#loading
procprof archive merge archive --type cpu --node be1 --from 2026-11-24T15:00:00Z -o sum.pb.gz
procprof report -top sum.pb.gz
```

Export can be repeated and interrupted: it archives what is missing, by hours, oldest first, and a profile is archived
once. Files appear whole or not at all and are never changed. Several folders of profiles can be exported to one
archive; each has a name of its own in it (`archive-writer` in the folder).

`rebuild` replaces the parts in which `verify` finds something wrong: it archives their profiles anew from the data
folder, and readers see these parts no more; the next compaction removes their files. A part stays, and the status is
1, while the data folder does not have all its profiles. Where several servers share the archive, run it on each: the
last one takes the part out. `--drop-missing` gives up the profiles that no data folder has. Frames that a compaction
has named are named again by the next one.

Kept are values as estimates (by the rules of pprof), stacks with lines, inlined frames, addresses and build ids,
labels, and the facts of a profile, among them the main binary (`pprof:main`, `pprof:main-build-id`) and the expressions
of frames that reports leave out (`pprof:drop-frames`, `pprof:keep-frames`), which are in the tables of stacks all the
same. Not kept are counts as measured, times finer than microseconds, where a file was mapped, comments of others,
pages, and recordings of JVMs. The pprof files in the folder stay as they are.

## Buckets

Instead of a folder, the command and the key `archive` take a bucket, or a part of one:

| URL | storage | settings and credentials |
|---|---|---|
| `s3://bucket/prefix` | Amazon S3, or a server that speaks its protocol and knows `If-None-Match: *` | `AWS_ENDPOINT_URL`, `AWS_REGION`; `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`; or `AWS_SHARED_CREDENTIALS_FILE` (`~/.aws/credentials`) with `AWS_PROFILE`; or a web identity, a container's or an instance's role |
| `gs://bucket/prefix` | Google Cloud Storage | `GOOGLE_APPLICATION_CREDENTIALS` or `GOOGLE_SERVICE_ACCOUNT`, a file; or an instance's service account |
| `az://container/prefix` | Azure Blob Storage | `AZURE_STORAGE_ACCOUNT_NAME`; `AZURE_STORAGE_ACCOUNT_KEY` or a service principal; or a managed identity |

Credentials come from the environment, from files that it names, and from roles: a URL that has any is refused, and
none are in errors, logs or pages. A credentials file is read for each request, so new keys count at once. Servers are
reached by TLS unless their endpoint begins with `http://`, through the proxy that `HTTPS_PROXY` names, and never
through redirects: set the region. The credentials must permit to list, read, write and delete objects below the
prefix. The bucket is not created.

```bash
export AWS_ENDPOINT_URL=https://s3.example AWS_REGION=eu-1 AWS_SHARED_CREDENTIALS_FILE=/etc/procprof/s3
procprof serve --set archive=s3://profiles/fleet
procprof archive stats s3://profiles/fleet
```

A request is tried five times at most, when a server fails or is not reached. A connection is made within 5 s, a server
is silent for 15 s at most, and an operation with all its tries takes 30 s, and a second more for each 256 KiB; a
listing takes up to ten times as long and has 1,048,576 objects at most. While a bucket is away the server goes on
collecting; what is missing is archived within a minute of its return, as long as retention keeps the profiles in the
data folder; `/archive`, the log and the metric `procprof_archive_missed_profiles_total` tell of those that it did not.
Sums are then those of the data folder, and tell so. Several servers can archive to one bucket.

Objects below the prefix that are not of an archive are reported. Names that are not printable, begin with a dot or lie
elsewhere are passed over; a listing with names that have empty steps, `..` or control characters is refused.

## Files

```text
frames/date=2026-11-24/hour=15/0123456789abcdef-0000.parquet    functions, lines, addresses
stacks/…  labels/…  samples/…  profiles/…  rollups/…  hours/…
```

Files of one name, one of each table, are written together: all profiles of an hour (UTC), or as many of them as fit
into memory; compaction writes those of a day to the folder `hour=24`, so that the hour of a row is in its column
`time`. Ids other than `id` and `node` are unique in the archive, so one column joins two tables. A part whose file of
profiles is missing was interrupted; its samples join no profile.

Stacks are a tree: the stack of a caller is `stack - up`, and all stacks that begin with a stack have ids from `stack`
to `last`. The sum of a function with what it calls is thus that of the ids between the two, for each stack with that
function as its leaf that is not `recursive`. Samples are sorted by type, kind, node, stack and profile.

## Compaction

`procprof serve` merges the parts of each day (UTC) that is over into one, or a few, which share stacks and frames, once
the last hour of the day is archived, and when it starts. It drops whole days before `archive_days_max` (90), then whole
hours and days, oldest first, until `archive_bytes_max` is kept. Frames that were archived without names get those of
symbols that were uploaded meanwhile. Of profiles that several parts of a day have it keeps one. With each merged part
it writes the roll-ups of its hours: `rollups` has the samples of the profiles that a node completed in an hour added
up, and `hours` what there is to know about these profiles, joined by `summary`. There are none of other days, nor where
a sum exceeds 64 bits, so they have nothing that the other tables do not have. `procprof archive compact` does the same
without a server, with its own limits and without symbols. The limits are those of the archive, not of a cluster: of
several servers with one archive, the smallest limits count. A part that comes later is added the next time. Profiles
older than `archive_days_max` are not archived; what is dropped for its size while a server still has its profiles is
archived again when that starts: keep more bytes than the data folder.

One compaction runs at a time, by a lease in the folder `leases`; one that was killed keeps others away for
`--lease-seconds` (60), that of a server for 5 minutes; one that would last longer than a day is of a clock that was
wrong and keeps none away. Objects with other names in `leases` and `compactions` are left alone. It may be killed at
any moment: the next one completes or removes what it has begun. What takes the place of what is in `compactions`, one small object for each change, which
stays. procprof's own readers see each profile once all the time. While one of these objects that is not done with
cannot be read, which parts of its day count is not known: they are left out, by name, until it is restored or the day
is older than the limit.

Replaced files stay for `--grace-seconds` (60), so that queries that read them can end; the command waits for it, and a
server removes them up to a minute later. When files vanish nonetheless while procprof sums them, it begins once more.
While they stay, other engines see the profiles of the day twice: once in the new part and once in the old ones. Before
it, the new part is not whole, as if its writer had been interrupted. With `--grace-seconds 0` that time is only what
the removal takes, and a query that reads the old files then fails.

";

fn page() -> String {
    let mut page = format!("{HEAD}Version {VERSION} of the schema (`procprof.archive` in a file's metadata):\n");
    for table in
        [Table::Profiles, Table::Samples, Table::Stacks, Table::Frames, Table::Labels, Table::Rollups, Table::Hours]
    {
        let _ = write!(page, "\n### {}\n\n| column | type | meaning |\n|---|---|---|\n", table.name());
        for column in table.columns() {
            let null = if column.nullable { "" } else { " NOT NULL" };
            let _ = writeln!(page, "| `{}` | {}{null} | {} |", column.name, column.column_type.sql(), column.help);
        }
    }
    page.push_str("\nFolders add `date` (DATE) and `hour` (BIGINT) where an engine reads hive partitions.\n");
    page
}

#[test]
fn the_page_is_that_of_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/archive.md");
    let page = page();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/archive.md differs from the schema; UPDATE_EXPECT=1 cargo test rewrites it");
}
