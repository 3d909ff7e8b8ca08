//! Packets and statements of SQL clients.

/// `PROTOCOL_41`, `SECURE_CONNECTION`, `PLUGIN_AUTH`, `CONNECT_WITH_DB`, `DEPRECATE_EOF`.
const CAPABILITIES: u32 = 1 << 9 | 1 << 15 | 1 << 19 | 1 << 3 | 1 << 24;

const STATEMENTS: &[&str] = &[
    "ADMIN EXECUTE ON 10001, 10002 'System.print(HeapProf.getInstance().dump_dot_snapshot())';",
    "admin execute on all backends \"System.print(HeapProf.getInstance().has_enable())\"",
    "COLLECT CPU ON 10001, `demo fe`, be-1.example:8060 FOR 10 SECONDS",
    "SHOW FULL COLUMNS FROM `procprof`.`nodes` LIKE '%a\\_b%'",
    "SHOW VARIABLES WHERE Variable_name = 'version'",
    "/*!40101 SET @@session.autocommit = 1, sql_mode=concat(@@sql_mode, ',x') */",
    "SELECT n.name, COUNT(*) / 2, DATE_SUB(NOW(), INTERVAL 1 HOUR) FROM profiles p JOIN nodes n ON n.id = p.node WHERE completed > '2025-11-21' AND type \
     RLIKE 'cp.' || NOT x <=> NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 5, 10",
    "SELECT GROUP_CONCAT(function SEPARATOR ';'), CAST(flat AS SIGNED) DIV 3, @@session.sql_mode, \"t\\\"ext\", 'it''s' FROM samples('x', '*') -- end",
    "(WITH a AS (VALUES (1), (2)) SELECT * FROM a) # end",
    "KILL QUERY 7",
    "EXPLAIN SELECT 1",
];

const SCRIPTS: &[&str] = &[
    "System.print(HeapProf.getInstance().enable_prof())",
    " System . print ( HeapProf.getInstance().to_dot_format(\"heap_profile.x\") ) ;\n System.print(HeapProf.getInstance().diff_dot('a', 'b'));",
];

/// Inputs of a part.
pub(super) fn inputs(part: &str) -> Vec<Vec<u8>> {
    match part {
        "greeting" => vec![hello()],
        "command" => commands().into_iter().map(|command| [&[2], command.as_slice()].concat()).collect(),
        "connection" => {
            let mut bytes = packet(1, &hello());
            commands().iter().for_each(|command| bytes.extend(packet(0, command)));
            vec![bytes]
        }
        "script" => SCRIPTS.iter().map(|script| script.as_bytes().to_vec()).collect(),
        _ => STATEMENTS.iter().map(|statement| statement.as_bytes().to_vec()).collect(),
    }
}

fn hello() -> Vec<u8> {
    [&CAPABILITIES.to_le_bytes()[..], &[0, 0, 0, 1, 45], &[0; 23], b"ann\0\x03abcprocprof\0mysql_native_password\0"]
        .concat()
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
    [&[a, b, c, sequence], payload].concat()
}

fn commands() -> Vec<Vec<u8>> {
    let commands: [&[u8]; 9] = [
        b"\x03SELECT 1",
        b"\x16SELECT ?, ?",
        b"\x18\x01\0\0\0\x01\0piece",
        b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x0c\0\xfd\0\x0b\xe9\x07\x0b\x15\x01\x02\x03\x40\xe2\x01\0\x03abc",
        b"\x17\x01\0\0\0\0\x01\0\0\0\x01\x01\x08\x80\x05\0\0\0\0\0\0\0\xf0\x3f",
        b"\x1a\x01\0\0\0",
        b"\x04nodes\0",
        b"\x02procprof",
        b"\x19\x01\0\0\0",
    ];
    commands.iter().map(|command| command.to_vec()).collect()
}
