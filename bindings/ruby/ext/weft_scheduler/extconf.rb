# frozen_string_literal: true

require "mkmf"
require_relative "../libweft"

sources = Libweft.find

have_func("rb_ext_ractor_safe", "ruby.h")
have_struct_member("rb_io_t", "rbuf", "ruby/io.h")
have_func("rb_io_timeout", "ruby/io.h")
have_func("rb_fiber_scheduler_blocking_operation_extract", "ruby/fiber/scheduler.h")

$warnflags = "#{$warnflags} -Wall -Wextra -Wno-declaration-after-statement -Wno-unused-parameter"
append_cflags(["-std=gnu11", "-fvisibility=hidden"])

Libweft.create_makefile("weft/scheduler_ext", sources)
