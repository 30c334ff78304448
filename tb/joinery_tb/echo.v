// The smallest design with the ports of a generated top: a transfer that carries both tuples gives
// one result, their columns. The benches are tested on it, and on versions of it with a fault.
module top (
    input clk,
    input rst,
    input [8*`ECHO_IN-1:0] s_axis_tdata,
    input [`ECHO_IN-1:0] s_axis_tkeep,
    input s_axis_tlast,
    input s_axis_tvalid,
    output s_axis_tready,
    output [8*`ECHO_OUT-1:0] m_axis_tdata,
    output [`ECHO_OUT-1:0] m_axis_tkeep,
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
    input s_axil_rready
);
  reg full = 0, last = 0, last_follows = 0;
  reg [8*`ECHO_OUT-1:0] data = 0;
  reg [63:0] results = 0;
  wire pair = s_axis_tkeep[0] && s_axis_tdata[1:0] == 3;

  assign s_axis_tready = !full;
  assign m_axis_tvalid = full;
  assign m_axis_tdata = data;
  assign m_axis_tlast = last;
  assign m_axis_tkeep = {`ECHO_OUT{!last}};

  always @(posedge clk) begin
    if (s_axis_tvalid && s_axis_tready) begin
      data <= s_axis_tdata >> 2;
      full <= pair || s_axis_tlast;
      last <= !pair;
      last_follows <= pair && s_axis_tlast;
    end else if (full && m_axis_tready) begin
      results <= results + !last;
      full <= last_follows;
      last <= last_follows;
      last_follows <= 0;
    end
    if (rst) begin
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
