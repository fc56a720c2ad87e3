#!/usr/bin/env bats
# Consumer groups over HTTP: curl as a member, beside readers on the mount.
load helpers
