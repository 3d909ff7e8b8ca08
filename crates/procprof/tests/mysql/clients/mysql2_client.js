// mysql2 as the tests drive it: statements in, canonical rows out.
const fs = require('fs');
const readline = require('readline');
const mysql = require('mysql2/promise');

const { SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD, SQL_CA } = process.env;

function text(value) {
  if (value === null) return 'NULL';
  return String(value).replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n');
}

async function answer(connection, line) {
  const [sql, ...parameters] = line.split('\t');
  try {
    const options = { sql, rowsAsArray: true, dateStrings: true };
    const [rows, fields] = await (parameters.length ? connection.execute(options, parameters) : connection.query(options));
    if (!fields) return 'ok\n';
    const lines = ['> ' + fields.map((field) => field.name).join('\t'), ...rows.map((row) => row.map(text).join('\t'))];
    return lines.join('\n') + '\n';
  } catch (error) {
    if (error.errno === undefined) throw error;
    return `! ${error.errno}\n`;
  }
}

async function main() {
  const ssl = SQL_CA ? { ca: fs.readFileSync(SQL_CA), rejectUnauthorized: true } : undefined;
  const connection = await mysql.createConnection({ host: SQL_HOST, port: Number(SQL_PORT), user: SQL_USER, password: SQL_PASSWORD, ssl });
  for await (const line of readline.createInterface({ input: process.stdin })) process.stdout.write(await answer(connection, line));
  await connection.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
