module pilothouse.dev/examples/catalogue

go 1.26

require pilothouse.dev/sdk v0.0.0

replace pilothouse.dev/sdk => ../../../guest-sdk/go
