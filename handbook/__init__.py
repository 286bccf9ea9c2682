"""What the site needs beside its pages: links, and parts that are written by the program itself."""
