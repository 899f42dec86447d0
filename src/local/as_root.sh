# For other scripts, which read it: how a command is run as root.

# True as root, or with a sudo that asks for no password.
may_be_root() {
  [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

# as_root [NAME=VALUE]... COMMAND...: sudo lets no variable through, and the network may be behind a proxy. The address of one can
# have a password, which must not be among the words of a command.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    env "$@"
  else
    sudo -n ${http_proxy:+--preserve-env=http_proxy} ${https_proxy:+--preserve-env=https_proxy} \
      ${no_proxy:+--preserve-env=no_proxy} env "$@"
  fi
}
