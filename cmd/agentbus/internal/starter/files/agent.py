"""An agent. It reads the message from standard input; clients receive its output while it is written."""

import sys
import time

message = sys.stdin.read().strip()
for word in f"Hello! Your message has {len(message.split())} words: {message}".split():
    print(word, end=" ", flush=True)
    time.sleep(0.05)
print()
