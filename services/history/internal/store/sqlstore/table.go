package sqlstore

import (
	"strings"
)

// Type is the type of a column.
type Type string

// The types, by their names in PostgreSQL. Their Go values are string, int64, bool and []byte.
const (
	Text    Type = "text"
	Integer Type = "bigint"
	Boolean Type = "boolean"
	Bytes   Type = "bytea"
)

// Column is a column of a table.
type Column struct {
	Name string
	Type Type
}

// Table is a table as rows are inserted into it.
type Table struct {
	Name    string
	Columns []Column
	Key     []string // the primary key
	Replace bool     // a row with the same key is replaced; otherwise it stays as it is
	Add     bool     // the other columns are added to those of the row with the same key
}

// Into is the statement up to the rows.
func (t Table) Into() string {
	return "INSERT INTO " + t.Name + " (" + strings.Join(t.names(), ", ") + ")"
}

// OnConflict is the statement after the rows.
func (t Table) OnConflict() string {
	if !t.Replace && !t.Add {
		return " ON CONFLICT (" + strings.Join(t.Key, ", ") + ") DO NOTHING"
	}
	sets := make([]string, 0, len(t.Columns))
	for _, name := range t.names() {
		value := "excluded." + name
		if t.Add {
			value = t.Name + "." + name + " + " + value
		}
		sets = append(sets, name+" = "+value)
	}
	return " ON CONFLICT (" + strings.Join(t.Key, ", ") + ") DO UPDATE SET " + strings.Join(sets[len(t.Key):], ", ")
}

func (t Table) names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// reservation is the table with nothing but the key, to make rows that can be locked.
func (t Table) reservation() Table {
	return Table{Name: t.Name, Columns: t.Columns[:len(t.Key)], Key: t.Key}
}

// The tables. Their columns start with the key.
func threadsTable() Table {
	return Table{Name: "threads", Key: []string{"tenant", "thread_id"}, Replace: true, Columns: []Column{
		{"tenant", Text}, {"thread_id", Text}, {"owner", Text}, {"agent_id", Text}, {"title", Text},
		{"title_idx", Integer}, {"last_idx", Integer}, {"last_request_id", Text}, {"created_at", Integer},
		{"updated_at", Integer}, {"deleted", Boolean}, {"session", Text},
	}}
}

func requestsTable() Table {
	return Table{Name: "requests", Key: []string{"tenant", "request_id"}, Replace: true, Columns: []Column{
		{"tenant", Text}, {"request_id", Text}, {"thread_id", Text}, {"agent_id", Text}, {"owner", Text},
		{"idx", Integer}, {"accepted", Boolean}, {"title", Text}, {"status", Text}, {"next_n", Integer},
		{"incarnation", Text}, {"created_at", Integer}, {"ended_at", Integer}, {"deleted", Boolean},
	}}
}

// inputsTable is what a request came with: columns of requests that are written apart, once, because they never change.
func inputsTable() Table {
	return Table{Name: "requests", Key: []string{"tenant", "request_id"}, Replace: true, Columns: []Column{
		{"tenant", Text}, {"request_id", Text}, {"input", Text}, {"body_hash", Text},
	}}
}

func framesTable() Table {
	return Table{Name: "frames", Key: []string{"tenant", "request_id", "last_n"}, Columns: []Column{
		{"tenant", Text}, {"request_id", Text}, {"last_n", Integer}, {"first_n", Integer}, {"incarnation", Text},
		{"names", Text}, {"beyond", Boolean}, {"terminal", Boolean}, {"earliest", Integer}, {"latest", Integer},
		{"at", Integer}, {"lines", Bytes},
	}}
}

func storedBytesTable() Table {
	return Table{Name: "stored_bytes", Key: []string{"tenant", "owner"}, Add: true, Columns: []Column{
		{"tenant", Text}, {"owner", Text}, {"bytes", Integer},
	}}
}
