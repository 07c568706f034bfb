module pilothouse.dev/testserver

go 1.26
