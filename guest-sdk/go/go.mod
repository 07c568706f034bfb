module pilothouse.dev/sdk

go 1.26
