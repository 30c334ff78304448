// The smallest design with the ports of a generated top: a transfer that carries both tuples gives
// one result, their columns. With several lanes, the transfers fill them in turn, and the results
// leave together when the last lane has had its turn. The benches are tested on it, and on versions
// of it with a fault.
module top (
    input clk,
    input rst,
    input [8*`ECHO_IN-1:0] s_axis_tdata,
    input [`ECHO_IN-1:0] s_axis_tkeep,
    input s_axis_tlast,
    input s_axis_tvalid,
    output s_axis_tready,
    output [8*`ECHO_LANES*`ECHO_OUT-1:0] m_axis_tdata,
    output [`ECHO_LANES*`ECHO_OUT-1:0] m_axis_tkeep,
    output m_axis_tlast,
    output m_axis_tvalid,
    input m_axis_tready,
    input [7:0] s_axil_awaddr,
    input [2:0] s_axil_awprot,
    input s_axil_awvalid,
    output s_axil_awready,
    input [31:0] s_axil_wdata,
    input [3:0] s_axil_wstrb,
    input s_axil_wvalid,
    output s_axil_wready,
    output [1:0] s_axil_bresp,
    output s_axil_bvalid,
    input s_axil_bready,
    input [7:0] s_axil_araddr,
    input [2:0] s_axil_arprot,
    input s_axil_arvalid,
    output s_axil_arready,
    output [31:0] s_axil_rdata,
    output [1:0] s_axil_rresp,
    output s_axil_rvalid,
    input s_axil_rready,
    output log_valid,
    output log_refused
);
  reg full = 0, last = 0, last_follows = 0;
  reg [8*`ECHO_LANES*`ECHO_OUT-1:0] data = 0;
  reg [`ECHO_LANES-1:0] rows = 0;  // the lanes that carry a row
  reg [1:0] lane = 0;
  reg [63:0] results = 0;
  wire refused = 0;
  wire pair = s_axis_tkeep[0] && s_axis_tdata[1:0] == 3 && !refused;
  wire [`ECHO_LANES-1:0] rows_now = rows | pair << lane;
  wire done = lane == `ECHO_LANES - 1 || s_axis_tlast;

  assign s_axis_tready = !full;
  assign m_axis_tvalid = full;
  assign m_axis_tdata = data;
  assign m_axis_tlast = last;
  genvar n;
  generate
    for (n = 0; n < `ECHO_LANES; n = n + 1) begin : lanes
      assign m_axis_tkeep[n*`ECHO_OUT+:`ECHO_OUT] = {`ECHO_OUT{rows[n]}};
    end
  endgenerate
  assign log_valid = s_axis_tvalid && s_axis_tready && s_axis_tkeep[0];
  assign log_refused = refused;

  always @(posedge clk) begin
    if (s_axis_tvalid && s_axis_tready) begin
      data[8*lane*`ECHO_OUT+:8*`ECHO_OUT] <= s_axis_tdata >> 2;
      rows <= rows_now;
      lane <= done ? 0 : lane + 1;
      full <= done && (rows_now != 0 || s_axis_tlast);
      last <= rows_now == 0;
      last_follows <= rows_now != 0 && s_axis_tlast;
      results <= results + pair;
    end else if (full && m_axis_tready) begin
      rows <= 0;
      full <= last_follows;
      last <= last_follows;
      last_follows <= 0;
    end
    if (rst) begin
      rows <= 0;
      lane <= 0;
      full <= 0;
      results <= 0;
    end
  end

  // Registers: identity, and the results in two halves; all refuse writes.
  reg rvalid = 0, bvalid = 0;
  reg [31:0] rdata = 0;
  assign s_axil_arready = !rvalid;
  assign s_axil_rvalid = rvalid;
  assign s_axil_rdata = rdata;
  assign s_axil_rresp = 0;
  assign s_axil_awready = !bvalid && s_axil_awvalid && s_axil_wvalid;
  assign s_axil_wready = s_axil_awready;
  assign s_axil_bvalid = bvalid;
  assign s_axil_bresp = 2;

  always @(posedge clk) begin
    if (s_axil_arvalid && s_axil_arready) begin
      rvalid <= 1;
      case (s_axil_araddr)
        0: rdata <= 32'h4f484345;
        4: rdata <= results[31:0];
        default: rdata <= results[63:32];
      endcase
    end else if (s_axil_rready) rvalid <= 0;
    if (s_axil_awready) bvalid <= 1;
    else if (s_axil_bready) bvalid <= 0;
    if (rst) begin
      rvalid <= 0;
      bvalid <= 0;
    end
  end
endmodule
