# For other scripts, which read it: how a command is run as root.

# True as root, or with a sudo that asks for no password.
may_be_root() {
  [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

# as_root [NAME=VALUE]... COMMAND...: sudo lets no variable through, and the network may be behind a proxy.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    env "$@"
  else
    sudo -n env ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
      ${no_proxy:+"no_proxy=$no_proxy"} "$@"
  fi
}
