// Package db reads the logs of databases and directories.
package db

import "stoplog/internal/parse/event"

// Family returns the family of a syslog tag without its path, "" when it
// belongs to no family here.
func Family(base []byte) string {
	switch string(base) {
	case "mysqld", "mariadbd", "mysql", "mariadb", "mysqld_safe":
		return "mysql"
	case "postgres", "postgresql", "pgsql", "postmaster":
		return "postgres"
	case "mongod", "mongodb", "mongos", "mongod.27017":
		return "mongodb"
	case "slapd", "openldap":
		return "slapd"
	}
	return ""
}

// Scanner returns the scanner of a family, nil when it is none of these.
func Scanner(family string) event.Scanner {
	switch family {
	case "mysql":
		return mysql
	case "postgres":
		return Postgres
	case "mongodb":
		return mongodb
	case "slapd":
		return slapd
	}
	return nil
}
