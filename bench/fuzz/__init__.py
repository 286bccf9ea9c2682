"""Whatever bytes come in, nothing but a `DpearlError` comes out: `targets` read, `mutate` writes, `make fuzz` runs."""
