# frozen_string_literal: true

# Build the extension of Weft::Server. It needs libweft-web in a checkout, or installed. Without
# libweft-web the gem has only the scheduler.
require "mkmf"
require_relative "../libweft"

sources = Libweft.find
if sources.empty? && have_library("weft-web", "weft_http_hijack", "weft/http.h")
  $defs << "-D_GNU_SOURCE"
  $warnflags = "#{$warnflags} -Wno-declaration-after-statement"
  append_cflags(["-std=gnu11", "-fvisibility=hidden"])
  create_makefile("weft/server_ext")
else
  warn "libweft-web is missing: the gem will have no Weft::Server"
  File.write("Makefile", dummy_makefile($srcdir).join)
end
