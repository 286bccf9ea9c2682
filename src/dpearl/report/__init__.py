"""Reports: one HTML file each, complete in itself. `page` is the shell of both; `public` never reaches real rows."""
