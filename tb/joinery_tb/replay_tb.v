// Replay a stimulus file through a generated top and write its results to a file, in Icarus.
// The files, the messages and the cycles are those of replay_main.cpp. The macros IN_BYTES, LANES,
// OUT_BYTES (of one lane) and ADDR_WIDTH describe the design.
`timescale 1ns / 1ps

module replay_tb;
  localparam IN_WORDS = (`IN_BYTES + 3) / 4;
  localparam OUT_WORDS = (`OUT_BYTES + 3) / 4;
  localparam RECORD_BYTES = 4 * (1 + IN_WORDS);
  localparam PROGRESS_EVERY = 4096;
`ifdef MERGE_CLOCK
  localparam RESET_CYCLES = 64;  // for a few edges of a second clock that is slower
  reg merge_clk = 0;
  integer merge_up, merge_down, merge_phase = 0;
`else
  localparam RESET_CYCLES = 4;
`endif
  localparam QUIET_CYCLES = 64;
  localparam SETTING_CYCLES = 4096;  // a design may have to divide before settings apply
  localparam REGISTER_PATIENCE = 1000;
  localparam PATH_BITS = 8 * 4096;

  reg clk = 0, rst = 1;
  reg s_axis_tvalid = 0, m_axis_tready = 0;
  wire s_axis_tready, m_axis_tvalid, m_axis_tlast;
  wire [8*`LANES*`OUT_BYTES-1:0] m_axis_tdata;
  wire [`LANES*`OUT_BYTES-1:0] m_axis_tkeep;
  wire log_valid, log_refused;
  reg [`ADDR_WIDTH-1:0] s_axil_araddr = 0;
  reg s_axil_arvalid = 0, s_axil_rready = 0;
  wire s_axil_arready, s_axil_rvalid;
  wire [31:0] s_axil_rdata;
  wire [1:0] s_axil_rresp;
  reg [`ADDR_WIDTH-1:0] s_axil_awaddr = 0;
  reg [31:0] s_axil_wdata = 0;
  reg s_axil_awvalid = 0, s_axil_wvalid = 0;
  wire s_axil_awready, s_axil_wready, s_axil_bvalid;
  wire [1:0] s_axil_bresp;

  // $fread puts the first byte of the file into the highest bits: turn the record round.
  reg [8*RECORD_BYTES-1:0] raw = 0;
  wire [8*RECORD_BYTES-1:0] record;
  genvar place;
  generate
    for (place = 0; place < RECORD_BYTES; place = place + 1) begin : turn
      assign record[8*place+:8] = raw[8*(RECORD_BYTES-1-place)+:8];
    end
  endgenerate
  wire has_data = record[0];
  wire is_last = record[1];

  `TOP dut (
    .clk(clk),
    .rst(rst),
`ifdef MERGE_CLOCK
    .merge_clk(merge_clk),
    .merge_rst(rst),
`endif
    .s_axis_tdata(record[32+:8*`IN_BYTES]),
    .s_axis_tkeep({`IN_BYTES{has_data}}),
    .s_axis_tlast(is_last),
    .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_axis_tready),
    .m_axis_tdata(m_axis_tdata),
    .m_axis_tkeep(m_axis_tkeep),
    .m_axis_tlast(m_axis_tlast),
    .m_axis_tvalid(m_axis_tvalid),
    .m_axis_tready(m_axis_tready),
    .log_valid(log_valid),
    .log_refused(log_refused),
    .s_axil_awaddr(s_axil_awaddr),
    .s_axil_awprot(3'b0),
    .s_axil_awvalid(s_axil_awvalid),
    .s_axil_awready(s_axil_awready),
    .s_axil_wdata(s_axil_wdata),
    .s_axil_wstrb(4'b1111),
    .s_axil_wvalid(s_axil_wvalid),
    .s_axil_wready(s_axil_wready),
    .s_axil_bresp(s_axil_bresp),
    .s_axil_bvalid(s_axil_bvalid),
    .s_axil_bready(1'b1),
    .s_axil_araddr(s_axil_araddr),
    .s_axil_arprot(3'b0),
    .s_axil_arvalid(s_axil_arvalid),
    .s_axil_arready(s_axil_arready),
    .s_axil_rdata(s_axil_rdata),
    .s_axil_rresp(s_axil_rresp),
    .s_axil_rvalid(s_axil_rvalid),
    .s_axil_rready(s_axil_rready)
  );

  reg [PATH_BITS-1:0] path;
  integer stimulus, results, decisions, arrived, left, list, writes, address, setting, found;
  reg [63:0] patience;
  reg [31:0] seed;

  // Pauses of either side: planned by a mask, or by chance.
  reg [8:0] chance_in, chance_out;
  reg [63:0] mask_in, mask_out;
  reg [6:0] period_in, period_out;
  reg [6:0] phase_in, phase_out;
  reg [31:0] state_in, state_out;
  reg pause_in, pause_out;

  reg [63:0] cycles, beats, rows, stalls_in, stalls_out, ends_in, ends_out, waited;
  reg [63:0] sent, decided, refused;
  reg more, started, taken_in, taken_out, answered, asked, placed, given, wrong;
  reg [`OUT_BYTES-1:0] keep;
  reg [32*OUT_WORDS-1:0] row;
  integer count, lane;

  function [31:0] xorshift(input [31:0] state);
    begin
      xorshift = state ^ (state << 13);
      xorshift = xorshift ^ (xorshift >> 17);
      xorshift = xorshift ^ (xorshift << 5);
    end
  endfunction

  task missing_option;
    begin
      $display("error option");
      $finish(0);
    end
  endtask

  task read_options;
    begin
      found = $value$plusargs("patience=%d", patience)
        + $value$plusargs("seed=%d", seed)
        + $value$plusargs("chance_in=%d", chance_in)
        + $value$plusargs("chance_out=%d", chance_out)
        + $value$plusargs("mask_in=%h", mask_in)
        + $value$plusargs("mask_out=%h", mask_out)
        + $value$plusargs("period_in=%d", period_in)
        + $value$plusargs("period_out=%d", period_out);
      if (found != 8) missing_option;
`ifdef MERGE_CLOCK
      found = $value$plusargs("merge_up=%d", merge_up) + $value$plusargs("merge_down=%d", merge_down);
      if (found != 2) missing_option;
`endif
      if (!$value$plusargs("stimulus=%s", path)) missing_option;
      stimulus = $fopen(path, "rb");
      if (!$value$plusargs("results=%s", path)) missing_option;
      results = $fopen(path, "wb");
      if (!$value$plusargs("log=%s", path)) missing_option;
      decisions = $fopen(path, "wb");
      if (!$value$plusargs("arrived=%s", path)) missing_option;
      arrived = $fopen(path, "wb");
      if (!$value$plusargs("left=%s", path)) missing_option;
      left = $fopen(path, "wb");
      if (!$value$plusargs("registers=%s", path)) missing_option;
      list = $fopen(path, "r");
      if (!$value$plusargs("writes=%s", path)) missing_option;
      writes = $fopen(path, "r");
      if (writes == 0) fail("file");
      if (stimulus == 0 || results == 0 || decisions == 0 || list == 0) fail("file");
      if (arrived == 0 || left == 0) fail("file");
      state_in = seed | 1;
      state_out = (seed ^ 32'h9e3779b8) | 1;
      phase_in = 0;
      phase_out = 0;
    end
  endtask

  task fail(input [63:0] reason);
    begin
      $display("error %0s", reason);
      $finish(0);
      #1;
    end
  endtask

  task draw_pauses;
    begin
      state_in = xorshift(state_in);
      state_out = xorshift(state_out);
      pause_in = mask_in[phase_in] || state_in[31:24] < chance_in;
      pause_out = mask_out[phase_out] || state_out[31:24] < chance_out;
      phase_in = phase_in + 1 == period_in ? 0 : phase_in + 1;
      phase_out = phase_out + 1 == period_out ? 0 : phase_out + 1;
    end
  endtask

  task next_record;
    more = $fread(raw, stimulus) == RECORD_BYTES;
  endtask

  task tick;
    begin
      clk = 1;
`ifdef MERGE_CLOCK
      // The second clock: merge_up edges in merge_down cycles, never at the time of the first.
      merge_phase = merge_phase + merge_up;
      while (merge_phase >= merge_down) begin
        #0.01 merge_clk = 1;
        #0.01 merge_clk = 0;
        merge_phase = merge_phase - merge_down;
      end
`endif
      #1 clk = 0;
    end
  endtask

  task take;
    begin
      if (^{m_axis_tlast, m_axis_tkeep} === 1'bx) fail("unknown");
      // The end carries no row, and every other transfer at least one.
      if ((m_axis_tkeep == 0) != m_axis_tlast) fail("keep");
      if (m_axis_tlast) begin
        ends_out = ends_out + 1;
        if (ends_out > ends_in) fail("extra");
      end
      for (lane = 0; lane < `LANES; lane = lane + 1) begin
        keep = m_axis_tkeep[lane*`OUT_BYTES+:`OUT_BYTES];
        row = m_axis_tdata[8*lane*`OUT_BYTES+:8*`OUT_BYTES];
        if (keep != 0) write_row;
      end
    end
  endtask

  task write_row;
    begin
      if (keep != {`OUT_BYTES{1'b1}}) fail("keep");
      if (^row === 1'bx) fail("unknown");
      rows = rows + 1;
      $fwrite(results, "%u", row);
      $fwrite(left, "%u", cycles[31:0]);
    end
  endtask

  // Logs what the design decided in this cycle about its next input transfer with data.
  task note_decision;
    begin
      if (^{log_valid, log_valid && log_refused} === 1'bx) fail("unknown");
      if (log_valid) begin
        decided = decided + 1;
        refused = refused + log_refused;
        $fwrite(decisions, "%c", {7'b0, log_refused});
      end
    end
  endtask

  task count_input;
    begin
      beats = beats + 1;
      sent = sent + has_data;
      ends_in = ends_in + is_last;
      $fwrite(arrived, "%u", cycles[31:0]);
      if (beats % PROGRESS_EVERY == 0) begin
        $display("progress %0d", beats);
        $fflush;
      end
    end
  endtask

  task feed;
    while (more || ends_out < ends_in) begin
      draw_pauses;
      if (!s_axis_tvalid && more && !pause_in) s_axis_tvalid = 1;
      m_axis_tready = !pause_out;
      #1;
      if (^{s_axis_tready, m_axis_tvalid} === 1'bx) fail("unknown");
      started = started || s_axis_tvalid;
      cycles = cycles + started;
      taken_in = s_axis_tvalid && s_axis_tready;
      taken_out = m_axis_tvalid && m_axis_tready;
      stalls_in = stalls_in + (s_axis_tvalid && !s_axis_tready);
      stalls_out = stalls_out + (m_axis_tvalid && !m_axis_tready);
      if (taken_in) count_input;
      if (taken_out) take;
      note_decision;
      waited = taken_in || taken_out ? 0 : waited + 1;
      if (waited > patience) begin
        $display("stuck %0d %0d %0d %0d %0d", cycles, beats, rows, s_axis_tready, m_axis_tvalid);
        $finish(0);
        #1;
      end
      tick;
      if (taken_in) begin
        s_axis_tvalid = 0;
        next_record;
      end
    end
  endtask

  // Nothing may come after the last end.
  task stay_quiet;
    begin
      m_axis_tready = 1;
      for (count = 0; count < QUIET_CYCLES; count = count + 1) begin
        #1;
        if (m_axis_tvalid !== 0) fail("extra");
        note_decision;
        tick;
      end
    end
  endtask

  task write_register;
    begin
      s_axil_awaddr = address;
      s_axil_awvalid = 1;
      s_axil_wdata = setting;
      s_axil_wvalid = 1;
      answered = 0;
      for (count = 0; !answered; count = count + 1) begin
        if (count == REGISTER_PATIENCE) fail("register");
        #1;
        placed = s_axil_awvalid && s_axil_awready;
        given = s_axil_wvalid && s_axil_wready;
        answered = s_axil_bvalid;
        wrong = answered && s_axil_bresp != 0;
        tick;
        if (placed) s_axil_awvalid = 0;
        if (given) s_axil_wvalid = 0;
        if (wrong) fail("setting");
      end
    end
  endtask

  // Writes settings before anything else, and lets them take effect.
  task write_registers;
    begin
      found = 0;
      while ($fscanf(writes, "%h %h", address, setting) == 2) begin
        write_register;
        found = 1;
      end
      if (found) begin
        for (count = 0; count < SETTING_CYCLES; count = count + 1) begin
          #1 tick;
        end
      end
    end
  endtask

  task read_register;
    begin
      s_axil_araddr = address;
      s_axil_arvalid = 1;
      s_axil_rready = 1;
      answered = 0;
      for (count = 0; !answered; count = count + 1) begin
        if (count == REGISTER_PATIENCE) fail("register");
        #1;
        asked = s_axil_arvalid && s_axil_arready;
        answered = s_axil_rvalid;
        if (answered) $display("register %0d %0d %0d", address, s_axil_rdata, s_axil_rresp);
        tick;
        if (asked) s_axil_arvalid = 0;
      end
    end
  endtask

  initial begin
    cycles = 0; beats = 0; rows = 0; stalls_in = 0; stalls_out = 0;
    sent = 0; decided = 0; refused = 0; ends_in = 0; ends_out = 0; waited = 0; started = 0;
    read_options;
    for (count = 0; count < RESET_CYCLES; count = count + 1) begin
      #1 tick;
    end
    rst = 0;
    write_registers;
    next_record;
    feed;
    stay_quiet;
    while ($fscanf(list, "%h", address) == 1) read_register;
    $fclose(results);
    $fclose(decisions);
    $fclose(arrived);
    $fclose(left);
    $display("cycles %0d\nbeats %0d\nresults %0d\nstalls_in %0d\nstalls_out %0d",
             cycles, beats, rows, stalls_in, stalls_out);
    $display("sent %0d\ndecided %0d\nrefused %0d", sent, decided, refused);
    $finish(0);
  end
endmodule
