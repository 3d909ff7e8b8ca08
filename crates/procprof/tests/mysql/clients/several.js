// clients and what is built on them: each begins a session as it does by itself, reads, and prints `ok SESSION`
// and, after a tab, the client with its version, or why not.
const assert = require('assert');
const fs = require('fs');

const { SQL_HOST: host, SQL_PORT, SQL_USER: user, SQL_PASSWORD: password } = process.env;
const port = Number(SQL_PORT);
const login = { host, port, user, password, database: 'procprof' };
const QUERY = 'SELECT id, role FROM nodes WHERE id = ? AND name <> ?';
const VALUES = [10001, "it's\\"];
const TABLES = [
  'captures', 'diff', 'errors', 'functions', 'nodes', 'profiles', 'samples', 'stacks', 'timeline', 'top',
];
const LONG = "SELECT REPEAT('größe', 100000) AS t";

const plain = (rows) => rows.map((row) => ({ ...row }));
const expected = [{ id: 10001, role: 'BE' }];

async function mysql() {
  const { promisify } = require('util');
  for (const compress of [false, true]) {
    const connection = require('mysql').createConnection({ ...login, compress });
    const query = promisify(connection.query.bind(connection));
    assert.deepEqual(plain(await query(QUERY, VALUES)), expected);
    await promisify(connection.beginTransaction.bind(connection))();
    await promisify(connection.commit.bind(connection))();
    await promisify(connection.ping.bind(connection))();
    await promisify(connection.end.bind(connection))();
  }
}

async function mysql2() {
  for (const compress of [false, true]) {
    const connection = await require('mysql2/promise').createConnection({ ...login, compress });
    assert.deepEqual(plain((await connection.execute(QUERY, VALUES))[0]), expected);
    assert.equal((await connection.query(LONG))[0][0].t.length, 500000);
    await connection.beginTransaction();
    await connection.rollback();
    await connection.changeUser({ user, password, database: 'procprof' });
    await connection.end();
  }
}

async function mariadb() {
  for (const compress of [false, true]) {
    const pool = require('mariadb').createPool({ ...login, compress, connectionLimit: 1, resetAfterUse: true, allowPublicKeyRetrieval: true });
    for (let turn = 0; turn < 2; turn++) {
      const connection = await pool.getConnection();
      assert.deepEqual(plain(await connection.query({ sql: QUERY, bigIntAsNumber: true }, VALUES)), expected);
      assert.deepEqual(plain(await connection.execute({ sql: QUERY, bigIntAsNumber: true }, VALUES)), expected);
      assert.equal((await connection.query('SELECT DATABASE() AS d'))[0].d, 'procprof');
      assert.equal((await connection.query(LONG))[0].t.length, 500000);
      await connection.beginTransaction();
      await connection.commit();
      await connection.release();
    }
    await pool.end();
  }
}

async function knex() {
  const knex = require('knex')({ client: 'mysql2', connection: login });
  const rows = await knex('nodes').select('id', 'role').where({ id: 10001 }).andWhere('name', 'like', '%be%');
  assert.deepEqual(plain(rows), expected);
  assert.equal(await knex.schema.hasTable('nodes'), true);
  assert.ok('role' in (await knex('nodes').columnInfo()));
  await knex.transaction(async (transaction) => transaction('nodes').count('* as n'), { isolationLevel: 'read committed' });
  await knex.destroy();
}

async function typeorm() {
  const { DataSource, EntitySchema } = require('typeorm');
  const Node = new EntitySchema({ name: 'nodes', columns: { id: { type: 'bigint', primary: true }, role: { type: 'varchar' } } });
  const source = new DataSource({ type: 'mysql', host, port, username: user, password, database: 'procprof', entities: [Node] });
  await source.initialize();
  assert.deepEqual(plain(await source.getRepository(Node).findBy({ id: '10001' })), [{ id: '10001', role: 'BE' }]);
  assert.equal(await source.createQueryRunner().hasTable('nodes'), true);
  await source.transaction('READ COMMITTED', (manager) => manager.count(Node));
  await source.destroy();
}

async function sequelize() {
  const { Sequelize, DataTypes } = require('sequelize');
  const sequelize = new Sequelize('procprof', user, password, { host, port, dialect: 'mysql', logging: false });
  await sequelize.authenticate();
  const Node = sequelize.define('nodes', { id: { type: DataTypes.BIGINT, primaryKey: true }, role: DataTypes.STRING }, { timestamps: false });
  assert.deepEqual((await Node.findAll({ where: { id: 10001 } })).map((node) => node.get()), expected);
  assert.deepEqual((await sequelize.getQueryInterface().showAllTables()).sort(), TABLES);
  assert.ok('role' in (await sequelize.getQueryInterface().describeTable('nodes')));
  await sequelize.transaction({ isolationLevel: 'READ COMMITTED' }, (transaction) => Node.count({ transaction }));
  await sequelize.close();
}

function version(name) {
  return JSON.parse(fs.readFileSync(`${process.env.NODE_PATH}/${name}/package.json`)).version;
}

const SESSIONS = { mysql, mysql2, mariadb, Knex: knex, TypeORM: typeorm, Sequelize: sequelize };

async function main() {
  for (const [name, run] of Object.entries(SESSIONS)) {
    try {
      await run();
      console.log(`ok ${name}\t${name} ${version(name.toLowerCase())}`);
    } catch (error) {
      console.log(`failed ${name} ${error.stack} ${error.sql ?? ''}`);
    }
  }
}

main().then(() => process.exit(0));
