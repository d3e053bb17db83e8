#!/bin/sh
# Says what the thread sanitizer's stage leaves out, and why.
echo "common, coordinator, agent, most of cli, launches and clients: code of one thread;" \
  "the address sanitizer's stage runs them"
exit 77
