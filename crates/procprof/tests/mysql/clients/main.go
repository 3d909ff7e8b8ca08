// The Go driver as the tests drive it: statements in, canonical rows out. With the argument `several` it begins sessions as
// it does by itself, reads, and prints `ok go-sql-driver/mysql`, a tab and its version, or why not.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"runtime/debug"
	"strings"

	"github.com/go-sql-driver/mysql"
)

var escapes = strings.NewReplacer("\\", "\\\\", "\t", "\\t", "\n", "\\n")

func print(rows *sql.Rows) error {
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		fmt.Println("ok")
		return rows.Err()
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "> %s\n", strings.Join(names, "\t"))
	values := make([]sql.NullString, len(names))
	places := make([]any, len(names))
	for i := range values {
		places[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		for i, value := range values {
			if i > 0 {
				lines.WriteByte('\t')
			}
			if value.Valid {
				lines.WriteString(escapes.Replace(value.String))
			} else {
				lines.WriteString("NULL")
			}
		}
		lines.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		return err
	}
	fmt.Print(lines.String())
	return nil
}

func answer(connection *sql.Conn, line string) error {
	parts := strings.Split(line, "\t")
	var parameters []any
	for _, part := range parts[1:] {
		parameters = append(parameters, part)
	}
	rows, err := connection.QueryContext(context.Background(), parts[0], parameters...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return print(rows)
}

func session(compress bool) error {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.DBName = os.Getenv("SQL_USER"), os.Getenv("SQL_PASSWORD"), "procprof"
	config.Net, config.Addr = "tcp", net.JoinHostPort(os.Getenv("SQL_HOST"), os.Getenv("SQL_PORT"))
	if err := config.Apply(mysql.EnableCompression(compress)); err != nil {
		return err
	}
	database, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		return err
	}
	defer database.Close()
	transaction, err := database.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted, ReadOnly: true})
	if err != nil {
		return err
	}
	var role, long string
	query := "SELECT role, REPEAT('größe', 100000) FROM nodes WHERE id = ? AND name <> ?"
	if err := transaction.QueryRow(query, 10001, "it's\\").Scan(&role, &long); err != nil {
		return err
	}
	if role != "BE" || len([]rune(long)) != 500000 {
		return fmt.Errorf("%s and %d characters", role, len([]rune(long)))
	}
	if err := transaction.Commit(); err != nil {
		return err
	}
	_, err = database.Query("SELECT absent FROM nodes")
	var failure *mysql.MySQLError
	if !errors.As(err, &failure) || failure.Number != 1054 {
		return fmt.Errorf("%v instead of error 1054", err)
	}
	return database.Ping()
}

func several() {
	const path = "github.com/go-sql-driver/mysql"
	for _, compress := range []bool{false, true} {
		if err := session(compress); err != nil {
			fmt.Println("failed go-sql-driver/mysql", err)
			return
		}
	}
	build, ok := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if ok && module.Path == path {
			fmt.Printf("ok go-sql-driver/mysql\tgo-sql-driver/mysql %s\n", strings.TrimPrefix(module.Version, "v"))
		}
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "several" {
		several()
		return
	}
	config := mysql.NewConfig()
	config.User, config.Passwd = os.Getenv("SQL_USER"), os.Getenv("SQL_PASSWORD")
	config.Net, config.Addr = "tcp", net.JoinHostPort(os.Getenv("SQL_HOST"), os.Getenv("SQL_PORT"))
	if path := os.Getenv("SQL_CA"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			log.Fatal(err)
		}
		authorities := x509.NewCertPool()
		authorities.AppendCertsFromPEM(pem)
		config.TLS = &tls.Config{RootCAs: authorities, ServerName: os.Getenv("SQL_HOST")}
	}
	if err := config.Apply(mysql.EnableCompression(os.Getenv("SQL_COMPRESS") != "")); err != nil {
		log.Fatal(err)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		log.Fatal(err)
	}
	database := sql.OpenDB(connector)
	defer database.Close()
	connection, err := database.Conn(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		err := answer(connection, lines.Text())
		var failure *mysql.MySQLError
		if errors.As(err, &failure) {
			fmt.Printf("! %d\n", failure.Number)
		} else if err != nil {
			log.Fatal(err)
		}
	}
}
