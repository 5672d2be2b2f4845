# frozen_string_literal: true

# Build the extension of Weft::Server. It needs libweft-web, in a checkout or installed.
require "mkmf"
require_relative "../libweft"

Libweft.find
abort "libweft-web is missing" unless have_library("weft-web", "weft_http_serve_fd", "weft/http.h")

$defs << "-D_GNU_SOURCE"
$warnflags = "#{$warnflags} -Wno-declaration-after-statement"
append_cflags(["-std=gnu11", "-fvisibility=hidden"])

create_makefile("weft/server_ext")
